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
