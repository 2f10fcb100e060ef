#!/usr/bin/env python3
"""Writes tests/golden/lewm.txt: what the reference's own modules compute with weights made by a formula.

Run `scripts/reference/lewm.py` with Python 3.11 or newer: it makes a throw-away virtual environment and installs the
pinned packages from PyPI there (PyTorch is large). The classes are those of stable-worldmodel (LeWM, Predictor,
Embedder, MLP, SIGReg) and the vision transformer of transformers that it builds.

Weights, frames and actions are formulas (`noise` below; tests/model/lewm_test.c has the same), so the file holds
results only. Sections:
  published   sizes of the released model: latents, action embeddings, predictions of 1, 2, 3 tokens, a rollout of
              two candidates and its costs, in evaluation mode
  sigreg      SIGReg and its gradient, directions from the project's own generator
  step        a small model in training mode without dropout: losses, gradient norms, running statistics, and what
              one AdamW step with clipping leaves
"""

import importlib.util
import os
import sys
import zlib

from throwaway import REFERENCE, ROOT, run_inside

PACKAGES = ["numpy==2.4.6", "torch==2.15.0", "einops==0.8.2", "transformers==4.57.6"]
FILE = os.path.join(ROOT, "tests", "golden", "lewm.txt")


def noise(name, count):
    """Uniform in [-1, 1), a function of the name and the index: murmur's last steps over crc + index * golden."""
    import numpy as np

    h = (np.arange(count, dtype=np.uint64) * 0x9E3779B9 + zlib.crc32(name.encode())).astype(np.uint32)
    h ^= h >> 16
    h = (h.astype(np.uint64) * 0x85EBCA6B).astype(np.uint32)
    h ^= h >> 13
    h = (h.astype(np.uint64) * 0xC2B2AE35).astype(np.uint32)
    h ^= h >> 16
    return (h >> 8).astype(np.float32) * np.float32(2.0**-23) - np.float32(1)


def weight(name, shape):
    import numpy as np

    count = int(np.prod(shape)) if len(shape) else 1
    u = noise(name, count)
    f = np.float32
    if len(shape) == 0:
        return np.array(7)
    if "cls_token" in name or name.endswith("position_embeddings") or name.endswith("pos_embedding"):
        w = u * f(0.5)
    elif name.endswith("running_var"):
        w = f(1) + u * f(0.5)
    elif len(shape) == 1:
        w = f(1) + u * f(0.25) if name.endswith("weight") else u * f(0.125)
    else:
        w = u * np.sqrt(f(1) / f(count // shape[0]))
    return w.astype(f).reshape(shape)


def frames(count, size):
    import numpy as np

    u = noise("frames", count * size * size * 3)
    smooth = np.arange(count * size * size * 3) // 97 % 160
    return (smooth + np.floor((u + 1) * np.float32(40))).astype(np.uint8).reshape(count, size, size, 3)


def philox(seed, stream, index):
    import numpy as np

    mask = np.uint64(0xFFFFFFFF)
    k0, k1 = np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32)
    index = np.asarray(index, dtype=np.uint64)
    c0, c1 = index & mask, index >> np.uint64(32)
    c2 = np.full_like(c0, stream & 0xFFFFFFFF)
    c3 = np.full_like(c0, stream >> 32)
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c2 = (p1 >> np.uint64(32)) ^ c1 ^ k0, (p0 >> np.uint64(32)) ^ c3 ^ k1
        c1, c3 = p1 & mask, p0 & mask
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & mask, (k1 + np.uint64(0xBB67AE85)) & mask
    return np.stack([c0, c1, c2, c3], axis=1)


def directions(seed, node, update, width, count):
    """core/rng.h and nn/ref/sigreg.c: purpose RNG_DIRECTIONS, sub the node, block 0 at update << 32."""
    import numpy as np

    blocks = (width * count + 3) // 4
    words = philox(seed, (14 << 48) ^ node, (update << 32) + np.arange(blocks, dtype=np.uint64))
    unit = ((words >> np.uint64(9)).astype(np.float32) + np.float32(0.5)) * np.float32(1 / 8388608)
    radius = np.sqrt(np.float32(-2) * np.log(unit[:, 0::2]))
    angle = np.float32(6.283185307) * unit[:, 1::2]
    both = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=2).reshape(-1)
    return both[: width * count].reshape(count, width).T.copy()


def load(name, *path):
    """A module of the reference by its file: the package's own __init__ asks for simulators."""
    site = next(p for p in sys.path if os.path.isdir(os.path.join(p, "stable_worldmodel")))
    spec = importlib.util.spec_from_file_location(name, os.path.join(site, "stable_worldmodel", *path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build(sizes):
    import torch
    from transformers import ViTConfig, ViTModel

    lewm, part = load("lewm", "wm", "lewm", "lewm.py"), load("module", "wm", "lewm", "module.py")
    w = sizes["width"]
    vit = ViTModel(
        ViTConfig(hidden_size=w, num_hidden_layers=sizes["depth"], num_attention_heads=sizes["heads"],
                  intermediate_size=sizes["mlp"], image_size=sizes["image"], patch_size=sizes["patch"]),
        add_pooling_layer=False)
    predictor = part.Predictor(num_frames=3, depth=sizes["predictor_depth"], heads=sizes["predictor_heads"],
                               mlp_dim=sizes["predictor_mlp"], input_dim=w, hidden_dim=w, output_dim=w,
                               dim_head=sizes["predictor_head"], dropout=0.0)
    actions = part.Embedder(input_dim=10, smoothed_dim=10, emb_dim=w, mlp_scale=sizes["action_scale"])
    heads = [part.MLP(w, sizes["projector"], w, norm_fn=torch.nn.BatchNorm1d) for _ in range(2)]
    model = lewm.LeWM(vit, predictor, actions, *heads)
    state = {k: torch.from_numpy(weight(k, tuple(v.shape))).to(v.dtype) for k, v in model.state_dict().items()}
    model.load_state_dict(state)
    return model.float()


def pixels(images):
    import numpy as np
    import torch

    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    x = ((images / 255.0 - mean) / std).astype(np.float32)
    return torch.from_numpy(x.transpose(0, 3, 1, 2).copy())


def put(out, name, values):
    import numpy as np

    values = np.asarray(values, dtype=np.float64).reshape(-1)
    if not np.isfinite(values).all():
        raise SystemExit(f"{name} is not finite")
    out.write(f"{name} {len(values)}\n")
    for i in range(0, len(values), 8):
        out.write(" ".join(f"{v:.9g}" for v in values[i : i + 8]) + "\n")


def published(out):
    import torch

    model = build(dict(width=192, depth=12, heads=3, mlp=768, image=224, patch=14, predictor_depth=6,
                       predictor_heads=16, predictor_head=64, predictor_mlp=2048, action_scale=4, projector=2048))
    model.eval()
    put(out, "parameters", [sum(p.numel() for p in model.parameters())])
    put(out, "tensors", [len(model.state_dict())])
    with torch.no_grad():
        z = model.encode({"pixels": pixels(frames(3, 224))[None]})["emb"][0]
        actions = torch.from_numpy(noise("actions", 2 * 5 * 10).reshape(2, 5, 10)) * 2
        c = model.action_encoder(actions)
        put(out, "latents", z)
        put(out, "embeddings", c[0, :3])
        for n in (1, 2, 3):
            put(out, f"predictions{n}", model.predict(z[None, :n], c[:1, :n])[0])
        info = {"pixels": pixels(frames(3, 224))[None, None, :1].expand(1, 2, -1, -1, -1, -1)}
        info = model.rollout(info, actions[None])
        put(out, "rollout", info["predicted_emb"][0, :, -1])
        info["goal_emb"] = z[None, None, 2:3].expand(1, 2, -1, -1)
        put(out, "costs", model.criterion(info)[0])


def sigreg(out):
    import torch

    loss = load("loss", "wm", "loss.py")
    a = torch.from_numpy(directions(5, 1, 3, 12, 32))
    torch.randn = lambda *size, **rest: a.clone()
    z = torch.from_numpy(noise("sigreg", 9 * 4 * 12).reshape(9, 4, 12) * 2).requires_grad_(True)
    value = loss.SIGReg(num_proj=32)(z.transpose(0, 1))
    value.backward()
    put(out, "sigreg", [value.item()])
    put(out, "sigreg_gradient", z.grad)


def step(out):
    import torch

    clips = 5
    model = build(dict(width=24, depth=2, heads=3, mlp=40, image=28, patch=14, predictor_depth=2, predictor_heads=2,
                       predictor_head=8, predictor_mlp=20, action_scale=2, projector=36))
    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-1)
    info = {"pixels": pixels(frames(clips * 4, 28)).reshape(clips, 4, 3, 28, 28),
            "action": torch.from_numpy(noise("actions", clips * 4 * 10).reshape(clips, 4, 10)) * 2}
    model.encode(info)
    z, c = info["emb"], info["act_emb"]
    prediction = (model.predict(z[:, :3], c[:, :3]) - z[:, 1:]).pow(2).mean()
    prediction.backward()
    put(out, "step_prediction", [prediction.item()])
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    put(out, "step_norm", [norm.item()])
    for name, p in model.named_parameters():
        put(out, "gradient." + name, (p.grad * max(norm, torch.tensor(1.0))).reshape(-1)[:: max(1, p.numel() // 4)][:4])
    optimiser.step()
    for name, p in model.state_dict().items():
        put(out, "after." + name, p.reshape(-1)[:: max(1, p.numel() // 4)][:4])


def write():
    import torch
    import transformers

    torch.manual_seed(0)
    with open(FILE, "w") as out:
        out.write("# LeWM: results of the reference's modules; made by scripts/reference/lewm.py\n")
        out.write(f"# stable-worldmodel 0.1.1, torch {torch.__version__}, transformers {transformers.__version__}\n")
        published(out)
        step(out)
        sigreg(out)


if __name__ == "__main__":
    if "--inside" in sys.argv:
        write()
    else:
        run_inside(__file__, PACKAGES, alone=[REFERENCE])
