"""Eight environments and eight controllers in step; a goal in numbers: the middle of the other room."""

import gymnasium
import numpy as np

import firm

COUNT = 8
envs = gymnasium.make_vec("firm/TwoRoom-v0", num_envs=COUNT, autoreset_mode="Disabled")
frames, info = envs.reset(options={"state": np.column_stack([np.full(COUNT, 60.0), np.linspace(30, 190, COUNT)])})
ctls = firm.Controllers("tworoom", COUNT, candidates=64, iterations=3)
ctls.goal({"agent_x": 0.5, "agent_y": 0.0})  # x / 112 - 1: 168 px, 112 px
actions, arrived = None, np.zeros(COUNT, bool)
for control in range(100):
    ctls.push(frames, actions)
    steps = ctls.act()
    arrived |= steps.reached
    if arrived.all():
        break
    actions = steps.action
    frames, *_ = envs.step(actions)
print(f"{arrived.sum()} of {COUNT} there after {control} controls")
if not arrived.all():
    raise SystemExit(1)
