#!/usr/bin/env python3
"""Writes tests/golden/tworoom.txt from the reference package's own TwoRoom environment.

Run `scripts/reference/tworoom.py` with Python 3.11: it makes a throw-away virtual environment, installs
the pinned packages from PyPI there, drives swm/TwoRoom-v1 through action sequences (random ones, and ones
aimed at walls, door and corners) and records every state bit for bit, plus a few frames. The test
env/tworoom_golden compares our simulator with it: states exactly, pixels within one level.

File format, all numbers float32 bits in hexadecimal:
    sequence X Y                  start position, then one line per control:
    AX AY X Y                     action, position after it
    frame X Y                     agent position, then run-length tokens in row order until `end`:
    RRGG or RRGG*N                red and green levels (blue equals green), N times
"""

import os
import struct
import sys

from throwaway import REFERENCE, ROOT, load, run_inside

PACKAGES = ["torch==1.13.1", "numpy==1.26.4", "gymnasium==1.4.0", "loguru==0.7.3"]
GOLDEN = os.path.join(ROOT, "tests", "golden", "tworoom.txt")


def bits(value):
    return struct.pack(">f", value).hex()


def sequences(rng):
    """(start, actions): random walks, then cases aimed at the wall, the door and the corners."""
    import numpy as np

    steps = 60
    for _ in range(12):
        x = rng.uniform(14, 209)
        start = np.array([x if not 100 <= x <= 124 else 60, rng.uniform(14, 209)], np.float32)
        yield start, rng.uniform(-1.5, 1.5, (steps, 2)).astype(np.float32)
    for _ in range(6):  # to and fro through the door, with noise that leaves it sideways
        start = np.array([rng.uniform(90, 134), rng.uniform(30, 68)], np.float32)
        way = np.where((np.arange(steps) // 10 % 2 == 0)[:, None], [1.0, 0.0], [-1.0, 0.0])
        yield start, (way + rng.normal(0, 0.5, (steps, 2))).astype(np.float32)
    for x, direction in ((80, 1.0), (140, -1.0)):  # along the wall, pressing against it
        start = np.array([x, 120], np.float32)
        yield start, np.stack([np.full(steps, direction) * rng.uniform(0, 1, steps),
                               rng.uniform(-1, 1, steps)], 1).astype(np.float32)
    for corner in ((14, 14), (209, 14), (14, 209), (209, 209)):
        push = np.sign(np.array(corner) - 112)
        yield np.array(corner, np.float32), (push * rng.uniform(-0.4, 1.2, (steps, 2))).astype(np.float32)


def main():
    import gymnasium
    import numpy as np
    import torch
    from importlib.metadata import version

    env = load("two_room.env", "two_room").TwoRoomEnv(render_mode="rgb_array")
    env.reset(seed=1)
    rng = np.random.default_rng(20240607)
    lines = [
        "# TwoRoom reference trajectories and frames; made by scripts/reference/tworoom.py",
        f"# {REFERENCE} torch {torch.__version__} numpy {np.__version__} gymnasium {gymnasium.__version__}",
    ]
    assert REFERENCE.endswith("==" + version("stable-worldmodel"))
    for start, actions in sequences(rng):
        env._set_state(start)
        lines.append("sequence " + " ".join(bits(v) for v in start))
        for action in actions:
            env.step(action)
            place = env.agent_position.numpy()
            lines.append(" ".join(bits(v) for v in (*action, *place)))
    for place in ((60.0, 112.0), (21.0, 21.0), (110.37, 47.81), (203.0, 130.5)):
        place = np.array(place, np.float32)
        env._set_state(place)
        image = env.render()
        assert image.shape == (224, 224, 3) and (image[..., 1] == image[..., 2]).all()
        lines.append("frame " + " ".join(bits(v) for v in place))
        pixels = [f"{r:02x}{g:02x}" for r, g, _ in image.reshape(-1, 3)]
        tokens, i = [], 0
        while i < len(pixels):
            n = 1
            while i + n < len(pixels) and pixels[i + n] == pixels[i]:
                n += 1
            tokens.append(pixels[i] if n == 1 else f"{pixels[i]}*{n}")
            i += n
        lines += [" ".join(tokens[i:i + 18]) for i in range(0, len(tokens), 18)]
        lines.append("end")
    with open(GOLDEN, "w") as out:
        out.write("\n".join(lines) + "\n")
    print(f"{GOLDEN}: {os.path.getsize(GOLDEN)} bytes")


if __name__ == "__main__":
    main() if "--inside" in sys.argv else run_inside(__file__, PACKAGES, [REFERENCE])
