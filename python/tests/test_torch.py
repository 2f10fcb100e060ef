"""PyTorch: the same numbers as in C for the four tasks' forms, and files there and back."""

import json
import struct

import numpy as np
import pytest
from conftest import available

import firm

torch = pytest.importorskip("torch")
import firm.torch  # noqa: E402

torch.set_num_threads(1)  # threads that wait for each other cost more than they bring
pytestmark = pytest.mark.long


def moments(task, count=2):
    """Three frames, the controls between them, and plans of two macro actions."""
    sims = available(task)
    sims.reset(np.arange(count) + 3)
    rng = np.random.default_rng(8)
    frames, past = [sims.frames()], []
    for _ in range(2):
        past.append(rng.uniform(-0.7, 0.7, (count, sims.info.action_dim)).astype(np.float32))
        sims.step(past[-1])
        frames.append(sims.frames())
    plan = rng.uniform(-0.7, 0.7, (count, 2, 5, sims.info.action_dim)).astype(np.float32)
    return np.stack(frames, 1), np.stack(past, 1), plan


@pytest.mark.parametrize("task", ["tworoom", "pusht", "reacher", "cube"])
def test_the_module_is_the_c_model(task):
    frames, past, plan = moments(task)
    model, world = firm.load(task), firm.torch.load(task)
    with torch.no_grad():
        ground = world.ground(torch.from_numpy(frames[:, 2])).numpy()
        path = world(*map(torch.from_numpy, (frames, past, plan))).numpy()
    assert np.abs(ground - model.ground(frames[:, 2])).max() < 1e-5
    want = model.predict(frames, plan.reshape(2, 10, -1), history=past).configurations
    assert np.abs(path - want).max() < 1e-5
    assert np.abs(want[:, 2] - want[:, 0]).max() > 1e-3  # something moves
    assert sum(p.numel() for p in world.parameters()) == model.info.parameters


def test_a_belief_that_looks_at_cells_is_the_c_model(tmp_path):
    from firm import _files

    frames, past, plan = moments("tworoom")
    texts, tensors = _files.read(firm.load("tworoom").path)
    units, rng, path = 24, np.random.default_rng(4), tmp_path / "place.safetensors"
    assert "place=" not in texts["firm.shape"]  # an older file
    belief = tensors["history.belief.weight"]
    tensors.update({
        "history.place.norm.gamma": rng.normal(1, 0.2, 3136),
        "history.place.norm.beta": rng.normal(0, 0.2, 3136),
        "history.place.weight": rng.normal(0, 3136**-0.5, (3136, units)),
        "history.place.bias": rng.normal(0, 0.1, units),
        "history.belief.weight": np.concatenate([belief, rng.normal(0, 0.2, (units, belief.shape[1]))]),
    })
    tensors = {name: tensors[name].astype(np.float32) for name in sorted(tensors)}
    _files.write(str(path), {**texts, "firm.shape": texts["firm.shape"] + f" place={units}"}, tensors)
    model, world = firm.load(path), firm.torch.load(path)
    with torch.no_grad():
        got = world(*map(torch.from_numpy, (frames, past, plan))).numpy()
    want = model.predict(frames, plan.reshape(2, 10, -1), history=past).configurations
    without = firm.load("tworoom").predict(frames, plan.reshape(2, 10, -1), history=past).configurations
    assert np.abs(got - want).max() < 1e-5 and np.abs(without - want).max() > 1e-3
    assert sum(p.numel() for p in world.parameters()) == model.info.parameters


def lewm_file(path, later=False):
    """A small LeWM of TwoRoom with random weights."""
    from firm import _files

    texts, _ = _files.read(firm.load("tworoom").path)
    rng = np.random.default_rng(5)
    w, tensors = 48, {}

    def put(name, *shape):
        numbers = rng.normal(0, 0.1, shape) + (1 if "running_var" in name or (len(shape) == 1 and name.endswith("weight")) else 0)
        if len(shape) > 1 and "embedding" not in name and "token" not in name:
            numbers = rng.normal(0, np.prod(shape[1:]) ** -0.5, shape)
        tensors[name] = np.abs(numbers).astype(np.float32) if "running_var" in name else numbers.astype(np.float32)

    def linear(name, out, inner):
        put(name + ".weight", out, inner)
        put(name + ".bias", out)

    def norm(name, width=w):
        put(name + ".weight", width)
        put(name + ".bias", width)

    put("encoder.embeddings.cls_token", 1, 1, w)
    put("encoder.embeddings.position_embeddings", 1, 17, w)
    put("encoder.embeddings.patch_embeddings.projection.weight", w, 3, 56, 56)
    put("encoder.embeddings.patch_embeddings.projection.bias", w)
    names = "attention.q_proj attention.k_proj attention.v_proj attention.o_proj mlp.fc1 mlp.fc2" if later else (
        "attention.attention.query attention.attention.key attention.attention.value attention.output.dense intermediate.dense output.dense")
    for i in range(2):
        stem = f"encoder.layers.{i}" if later else f"encoder.encoder.layer.{i}"
        norm(stem + ".layernorm_before")
        norm(stem + ".layernorm_after")
        for name, out, inner in zip(names.split(), (w, w, w, w, 20, w), (w, w, w, w, w, 20)):
            linear(f"{stem}.{name}", out, inner)
    norm("encoder.layernorm")
    put("predictor.pos_embedding", 1, 3, w)
    norm("predictor.transformer.norm")
    for i in range(2):
        stem = f"predictor.transformer.layers.{i}"
        norm(stem + ".attn.norm")
        put(stem + ".attn.to_qkv.weight", 3 * 60, w)
        linear(stem + ".attn.to_out.0", w, 60)
        norm(stem + ".mlp.net.0")
        linear(stem + ".mlp.net.1", 37, w)
        linear(stem + ".mlp.net.4", w, 37)
        linear(stem + ".adaLN_modulation.1", 6 * w, w)
    put("action_encoder.patch_embed.weight", 5, 10, 1)
    put("action_encoder.patch_embed.bias", 5)
    linear("action_encoder.embed.0", 33, 5)
    linear("action_encoder.embed.2", w, 33)
    for name in ("projector.net", "pred_proj.net"):
        linear(name + ".0", 50, w)
        norm(name + ".1", 50)
        put(name + ".1.running_mean", 50)
        put(name + ".1.running_var", 50)
        tensors[name + ".1.num_batches_tracked"] = np.array(7)
        linear(name + ".3", w, 50)
    kept = ("firm.task", "firm.typed", "firm.action_mean", "firm.action_std", "firm.library")
    _files.write(str(path), {"firm.format": "firm-lewm", "firm.format_version": "1", "firm.lewm": "2 20 0.1", **{k: texts[k] for k in kept}}, tensors)


@pytest.mark.parametrize("later", [False, True])
def test_lewm_is_the_c_model(tmp_path, later):
    path = tmp_path / "lewm.safetensors"
    lewm_file(path, later)
    frames, _, _ = moments("tworoom")
    plan = np.random.default_rng(3).uniform(-1, 1, (2, 5, 5, 2)).astype(np.float32)  # the window of three slides
    model, world = firm.load(path), firm.torch.load(path)
    assert isinstance(world, firm.torch.LeWM) and not world.training
    with torch.no_grad():
        latents = world(torch.from_numpy(frames[:, 2]), torch.from_numpy(plan))
        for other in (0, 1):  # LeWM has no named coordinates: paths are compared by their distances to two goals
            goal = world.encode(torch.from_numpy(frames[other : other + 1, 0]))
            want = model.predict(frames[:, 2], plan.reshape(2, 25, 2), goal=frames[other, 0]).distances[:, :, 0]
            got = (latents - goal).square().mean(-1).sqrt().numpy()
            assert np.abs(got - want).max() < 1e-5 and np.ptp(want) > 1e-2
    assert sum(p.numel() for p in world.parameters()) == model.info.parameters


def test_a_fine_tuned_lewm_runs_in_c(tmp_path):
    lewm_file(tmp_path / "lewm.safetensors")
    frames, _, plan = moments("tworoom")
    world = firm.torch.load(tmp_path / "lewm.safetensors")
    images, actions = torch.from_numpy(frames.reshape(6, 224, 224, 3)), torch.from_numpy(plan)
    descent = torch.optim.Adam(world.parameters(), 1e-3)
    world.train()
    for _ in range(3):
        descent.zero_grad()
        (world(images[:2], actions)[:, -1] - 0.3).square().mean().backward()
        descent.step()
    world.eval()
    missing = [n for n, p in world.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert [n for n in missing if not n.endswith("attention.key.bias")] == []  # softmax does not see a shift of all keys
    assert world.get_buffer("projector.net.1.num_batches_tracked") == 10
    firm.torch.save(world, tmp_path / "tuned.safetensors")
    with torch.no_grad():
        latents, goal = world(images[:2], actions), world.encode(images[5:])
        got = (latents - goal).square().mean(-1).sqrt().numpy()
    want, before = (
        firm.load(tmp_path / name).predict(frames.reshape(6, 224, 224, 3)[:2], plan.reshape(2, 10, 2), goal=frames[1, 2]).distances[:, :, 0]
        for name in ("tuned.safetensors", "lewm.safetensors")
    )
    assert np.abs(got - want).max() < 1e-5 < np.abs(before - want).max()


def test_gradients_reach_every_module():
    frames, past, plan = moments("tworoom")
    world = firm.torch.load("tworoom")
    world(*map(torch.from_numpy, (frames, past, plan))).square().sum().backward()
    missing = [n for n, p in world.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert missing == []


@pytest.mark.parametrize("half", [False, True])
def test_a_saved_model_comes_back(tmp_path, half):
    frames, past, plan = moments("tworoom")
    world = firm.torch.load("tworoom")
    path = tmp_path / "same.safetensors"
    firm.torch.save(world, path, half=half)
    a, b = firm.load("tworoom"), firm.load(path)
    assert a.info == b.info
    plans = plan.reshape(2, 10, -1)
    want, got = (m.predict(frames, plans, history=past).configurations for m in (a, b))
    assert np.array_equal(want, got)  # the shipped weights are halves already
    ctls = [firm.Controller(m, candidates=16, iterations=1, horizon=2, threads=1) for m in (a, b)]
    for ctl in ctls:
        ctl.goal({"agent_x": 0.1, "agent_y": 0.2})
        ctl.push(frames[0, 0])
    first, second = (ctl.act() for ctl in ctls)
    assert np.array_equal(first.plan, second.plan) and first.strange == second.strange


def test_a_fine_tuned_model_runs_in_c(tmp_path):
    frames, past, plan = moments("tworoom")
    world = firm.torch.load("tworoom")
    target = torch.from_numpy(firm.load("tworoom").ground(frames[:, 2])) + 0.1
    images = torch.from_numpy(frames[:, 2])
    descent = torch.optim.Adam(world.grounder.parameters(), 3e-4)
    for _ in range(12):
        descent.zero_grad()
        loss = (world.ground(images) - target).square().mean()
        loss.backward()
        descent.step()
    firm.torch.save(world, tmp_path / "tuned.safetensors")
    got = firm.load(tmp_path / "tuned.safetensors").ground(frames[:, 2])
    with torch.no_grad():
        assert np.abs(got - world.ground(images).numpy()).max() < 1e-5
    assert np.abs(got - target.numpy()).max() < 0.05 < np.abs(got - (target.numpy() - 0.1)).max()


def test_wrong_files_and_weights_say_so(tmp_path):
    world = firm.torch.load("tworoom")
    with pytest.raises(firm.errors.MissingError, match="none.safetensors"):
        firm.torch.load(tmp_path / "none.safetensors")
    with pytest.raises(ValueError, match="save takes a model of firm.torch.load"):
        firm.torch.save(torch.nn.Linear(2, 2), tmp_path / "x.safetensors")
    with torch.no_grad():
        world.get_parameter("grounder.out.bias")[0] = float("nan")
    with pytest.raises(ValueError, match="grounder.out.bias is not finite; nothing was written"):
        firm.torch.save(world, tmp_path / "x.safetensors")
    assert not list(tmp_path.iterdir())
    with pytest.raises(OSError, match="cannot be written"):
        firm.torch.save(firm.torch.load("tworoom"), tmp_path / "no" / "x.safetensors")


def test_the_digest_is_checked(tmp_path):
    from firm import _files

    path = tmp_path / "bad.safetensors"
    with open(firm.load("tworoom").path, "rb") as file:
        data = bytearray(file.read())
    data[-5] ^= 1
    path.write_bytes(data)
    with pytest.raises(firm.errors.FormatError, match="digest"):
        _files.read(str(path))
    path.write_bytes(data[:100])
    with pytest.raises(firm.errors.FormatError, match="damaged or no model file"):
        _files.read(str(path))
    (n,) = struct.unpack_from("<Q", data)
    assert "__metadata__" in json.loads(data[8 : 8 + n])
