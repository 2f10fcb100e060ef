"""Fine-tune in PyTorch, deploy in C: the grounder learns to read pictures that are darker than those of its training."""

import os
import tempfile

import numpy as np
import torch

import firm
import firm.torch

STEPS, BATCH = int(os.environ.get("STEPS", 200)), 16


def pictures(sims, seed):
    """Dark pictures and the configurations that they show."""
    sims.reset(np.arange(len(sims)) + seed)
    return (sims.frames() * 0.6).astype(np.uint8), sims.configs()


sims, held_out = firm.Simulators("tworoom", BATCH), firm.Simulators("tworoom", 64)
frames, truth = pictures(held_out, 10**6)
before = np.linalg.norm(firm.load("tworoom").ground(frames) - truth, axis=1).mean() * 112

world = firm.torch.load("tworoom")
descent = torch.optim.Adam([*world.tokenizer.parameters(), *world.grounder.parameters()], 3e-4)
for step in range(STEPS):
    images, configs = pictures(sims, step * BATCH)
    loss = (world.ground(torch.from_numpy(images)) - torch.from_numpy(configs)).square().mean()
    descent.zero_grad()
    loss.backward()
    descent.step()

path = os.path.join(tempfile.mkdtemp(), "dark.safetensors")
firm.torch.save(world, path)
after = np.linalg.norm(firm.load(path).ground(frames) - truth, axis=1).mean() * 112
print(f"mean error on dark pictures: {before:.1f} px before, {after:.1f} px after {STEPS} updates; {path}")
if after >= before:
    raise SystemExit("nothing was learned")
