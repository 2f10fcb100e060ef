#!/usr/bin/env python3
"""Steps per second with pictures: our vectorised environments beside the reference package's, in one run.

Run `scripts/reference/vector_speed.py` with Python 3.11: it makes a throw-away virtual environment, installs this package and the
reference from PyPI there, and alternates between 64 of ours (gymnasium.make_vec) and 64 of the reference's in gymnasium's
SyncVectorEnv, each drawn after every step. A line for each task has the median of the rounds' ratios: other work on the machine
spoils single rounds. Exit status 1 where one is below what is wanted."""

import os
import statistics
import sys
import time

from throwaway import REFERENCE, ROOT, load, run_inside

PACKAGES = [os.path.join(ROOT, "python"), "torch", "numpy", "gymnasium==1.4.0", "loguru==0.7.3", "pymunk==7.3.1", "pygame==2.6.1",
            "opencv-python-headless==5.0.0.93", "shapely==2.2.0"]
COUNT, OURS, THEIRS, ROUNDS = 64, 20, 2, 7
WANTED = {"TwoRoom": 20, "PushT": 10}


def speed(envs, actions, steps):
    begin = time.perf_counter()
    for _ in range(steps):
        envs.step(actions)
    return COUNT * steps / (time.perf_counter() - begin)


def main():
    import gymnasium
    import numpy as np
    import torch

    import firm  # noqa: F401

    torch.set_num_threads(1)  # faster for the reference: its tensors are small

    class Pictures(gymnasium.Wrapper):
        def __init__(self, env):
            super().__init__(env)
            self.observation_space = gymnasium.spaces.Box(0, 255, (224, 224, 3), np.uint8)

        def reset(self, **options):
            self.env.reset(**options)
            return np.asarray(self.env.render()), {}

        def step(self, action):
            _, reward, terminated, truncated, _ = self.env.step(action)
            return np.asarray(self.env.render()), float(reward), bool(terminated), bool(truncated), {}

    packages = ("two_room", "pusht")
    references = {
        "TwoRoom": lambda: load("two_room.env", *packages).TwoRoomEnv(render_mode="rgb_array"),
        "PushT": lambda: load("pusht.env", *packages).PushT(render_mode="rgb_array"),
    }
    actions = np.random.default_rng(0).uniform(-1, 1, (COUNT, 2)).astype(np.float32)
    short = False
    for name, make in references.items():
        ours = gymnasium.make_vec(f"firm/{name}-v0", num_envs=COUNT)
        theirs = gymnasium.vector.SyncVectorEnv([lambda make=make: Pictures(make())] * COUNT)
        ours.reset(seed=1)
        theirs.reset(seed=1)
        ratios = []
        for _ in range(ROUNDS):
            a, b = speed(ours, actions, OURS), speed(theirs, actions, THEIRS)
            ratios.append(a / b)
            print(f"{name}: ours {a:.0f}, reference {b:.0f} steps/s, ratio {a / b:.1f}", flush=True)
        middle = statistics.median(ratios)
        short = short or middle < WANTED[name]
        print(f"{name}: median ratio {middle:.1f} of {ROUNDS} rounds, {WANTED[name]} wanted", flush=True)
    sys.exit(short)


if __name__ == "__main__":
    main() if "--inside" in sys.argv else run_inside(__file__, PACKAGES, [REFERENCE], SDL_VIDEODRIVER="dummy")
