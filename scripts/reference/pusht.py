#!/usr/bin/env python3
"""Writes tests/golden/pusht.txt and tests/golden/pusht-*.png from the reference package's own Push-T.

Run `scripts/reference/pusht.py` with Python 3.11 or newer: it makes a throw-away virtual environment,
installs the pinned packages from PyPI there and drives swm/PushT-v1 through action sequences: random ones,
smooth pushes, starts with agent and block overlapping, blocks at and in the walls. Every sequence starts in
a fresh space. Actions are float32 values handed over as float64, so that everything is computed in double.

The test env/pusht_golden compares our simulator with it: one step from each recorded state in a fresh
space, the free run, and the frames.

File format of pusht.txt:
    sequence S0 .. S6             start state (hexadecimal doubles), then per control:
    AX AY                         action, float32 bits in hexadecimal
    AX AY S0 .. S6                the same and the state after it, every fourth control
    frame NAME                    the picture at this moment is tests/golden/pusht-NAME.png
    step S0 .. S6 AX AY T0 .. T6  S set in a fresh space, one action, T
"""

import os
import struct
import sys

from throwaway import REFERENCE, ROOT, load, run_inside

PACKAGES = ["numpy==2.4.6", "gymnasium==1.4.0", "loguru==0.7.3", "pymunk==7.3.1", "pygame==2.6.1",
            "opencv-python-headless==5.0.0.93", "shapely==2.2.0"]
GOLDEN = os.path.join(ROOT, "tests", "golden")
STEPS, EVERY = 100, 4


def put(env, state):
    """The public setter in a fresh space."""
    env._setup()
    env._set_state([float(v) for v in state])


def double(state):
    return " ".join(struct.pack(">d", float(v)).hex() for v in state)


def single(action):
    return " ".join(struct.pack(">f", float(v)).hex() for v in action)


def start_state(rng, kind):
    import numpy as np

    agent, block, angle = rng.uniform(50, 450, 2), rng.uniform(100, 400, 2), rng.uniform(0, 2 * np.pi)
    velocity = np.zeros(2)
    if kind == 2:  # overlapping
        agent = block + rng.uniform(-20, 20, 2)
    if kind == 3:  # at and in the walls, moving
        block = rng.choice([40.0, 470.0], 2) + rng.uniform(-15, 15, 2)
        agent = block + np.sign(256 - block) * rng.uniform(70, 120, 2)
        velocity = rng.uniform(-150, 150, 2)
    return np.concatenate([agent, block, [angle], velocity])


def act(rng, env, kind, t, phase):
    import numpy as np

    agent, block = np.array(env.agent.position), np.array(env.block.local_to_world((0, 45)))
    if kind == 0:  # the weak policy's law
        target = np.clip(agent + 100 * rng.uniform(-1, 1, 2), block - 100, block + 100)
        action = np.clip((target - agent) / 100, -1, 1)
    else:  # circling, and now and then straight through the block
        around = np.array([np.cos(phase + 0.13 * t), np.sin(phase + 0.13 * t)]) * (95 if t % 25 < 15 else 0)
        action = np.clip((block + around - agent) / 60, -1.4, 1.4) * (0.5 if kind == 1 else 1.0)
    return action.astype(np.float32)


def main():
    import cv2
    import gymnasium
    import numpy as np
    import pygame
    import pymunk
    from importlib.metadata import version

    assert REFERENCE.endswith("==" + version("stable-worldmodel"))
    env = load("pusht.env", "pusht").PushT(render_mode="rgb_array")
    env.reset(seed=1)
    # the package's default places for bodies in a new space, not the random ones of that reset
    for key in (("agent", "start_position"), ("block", "start_position"), ("block", "angle")):
        space = env.variation_space[key[0]][key[1]]
        space._value = space.init_value
    rng = np.random.default_rng(20240608)
    lines = ["# Push-T reference trajectories and frames; made by scripts/reference/pusht.py",
             f"# {REFERENCE} pymunk {pymunk.version} (Munk2D {pymunk.chipmunk_version}) pygame {pygame.__version__} "
             f"opencv {cv2.__version__} numpy {np.__version__} gymnasium {gymnasium.__version__}"]
    frames, steps = 0, []

    def keep_frame():
        nonlocal frames
        name = f"{frames:02d}"
        cv2.imwrite(os.path.join(GOLDEN, f"pusht-{name}.png"), env.render()[..., ::-1],
                    [cv2.IMWRITE_PNG_COMPRESSION, 9])
        lines.append(f"frame {name}")
        frames += 1

    for number in range(24):
        kind = number % 4
        state, phase = start_state(rng, kind), rng.uniform(0, 2 * np.pi)
        put(env, state)
        lines.append("sequence " + double(state))
        if number < 8:
            keep_frame()
        shown = [int(rng.integers(5, 25 if kind == 3 else STEPS))] if number % 3 == 0 or kind == 3 else []
        for t in range(STEPS):
            action = act(rng, env, kind, t, phase)
            before = env._get_obs()
            after = env.step(action.astype(np.float64))[0]["state"]
            lines.append(single(action) + (" " + double(after) if t % EVERY == EVERY - 1 else ""))
            if t in shown:
                keep_frame()
            if t % 10 == number % 10:
                steps.append((before, action))
    for before, action in steps:
        put(env, before)
        after = env.step(action.astype(np.float64))[0]["state"]
        lines.append("step " + double(before) + " " + single(action) + " " + double(after))
    path = os.path.join(GOLDEN, "pusht.txt")
    with open(path, "w") as out:
        out.write("\n".join(lines) + "\n")
    pictures = sum(os.path.getsize(os.path.join(GOLDEN, f"pusht-{i:02d}.png")) for i in range(frames))
    print(f"{path}: {os.path.getsize(path)} bytes; {frames} frames, {pictures} bytes")


if __name__ == "__main__":
    main() if "--inside" in sys.argv else run_inside(__file__, PACKAGES, [REFERENCE])
