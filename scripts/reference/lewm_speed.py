#!/usr/bin/env python3
"""One contract search of LeWM on the CPU: the reference package's own solver and model beside `firm bench plan --world
lewm`, in turn, with the same number of threads.

    scripts/reference/lewm_speed.py             makes a throw-away virtual environment for it (PyTorch is large)
    python scripts/reference/lewm_speed.py --inside             in an environment that has the packages

THREADS (2), ROUNDS (3), ITERATIONS (3) and PRECISIONS (fp32,bf16; of firm) are variables of the environment. Both sides
run 300 candidates and 5 macro actions from one frame, and make searches of 1 and of ITERATIONS iterations: the
difference is what an iteration takes, and 30 of them and the encoding of two frames are a search. Medians of the rounds. Weights are a formula; the time
does not depend on them. bench/lewm_torch.py compares with PyTorch code that is written for speed instead.
"""

import importlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
import types

import lewm
from lewm_exchange import FIRM, PUBLISHED
from throwaway import REFERENCE, run_inside

THREADS, ROUNDS, ITERATIONS = (int(os.environ.get(k, v)) for k, v in (("THREADS", 2), ("ROUNDS", 3), ("ITERATIONS", 3)))
PRECISIONS = os.environ.get("PRECISIONS", "fp32,bf16").split(",")
CANDIDATES, ELITES, HORIZON, WHOLE = 300, 30, 5, 30


def solver_class():
    """stable_worldmodel.solver.cem without the package's own __init__, which asks for simulators."""
    base = list(importlib.util.find_spec("stable_worldmodel").submodule_search_locations)[0]
    for name in ("", ".solver"):
        stand_in = types.ModuleType("stable_worldmodel" + name)
        stand_in.__path__ = [os.path.join(base, *name.split(".")[1:])]
        sys.modules[stand_in.__name__] = stand_in
    return importlib.import_module("stable_worldmodel.solver.cem").CEMSolver


def reference_seconds(solver_of, model, iterations):
    import numpy as np
    import torch
    from gymnasium.spaces import Box

    solver = solver_of(model, batch_size=1, num_samples=CANDIDATES, n_steps=iterations, topk=ELITES, seed=42)
    solver.configure(action_space=Box(-1, 1, (1, 2), np.float32), n_envs=1,
                     config=types.SimpleNamespace(horizon=HORIZON, action_block=5, receding_horizon=HORIZON))
    now, goal = (lewm.pixels(lewm.frames(2, 224)[i : i + 1])[None] for i in range(2))
    begun = time.perf_counter()
    plan = solver.solve({"pixels": now, "goal": goal, "action": torch.zeros(1, 1, 10)})
    seconds = time.perf_counter() - begun
    if not bool(torch.isfinite(plan["actions"]).all()):
        raise SystemExit("the reference's plan is not finite")
    return seconds


def whole(one, many):
    """Seconds of a search, from those of 1 and of ITERATIONS iterations."""
    each = (many - one) / (ITERATIONS - 1)
    return one - each + WHOLE * each


def our_seconds(precision, iterations):
    done = subprocess.run([FIRM, "bench", "plan", "tworoom", "--world", "lewm", "--threads", str(THREADS), "--precision", precision, "--repeats", "3",
                           "--set", f"plan.contract_iterations={iterations}", "--json"], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"firm bench plan --precision {precision}: {done.stderr.strip()}")
    said = json.loads(done.stdout)
    return 1e-3 * (said["ms_per_solve"] + said["perception_ms"])


def main():
    import torch

    torch.set_num_threads(THREADS)
    model, solver_of = lewm.build(PUBLISHED).eval(), solver_class()
    sides = {"reference fp32": lambda n: reference_seconds(solver_of, model, n), "firm fp32": lambda n: our_seconds("fp32", n)}
    if "bf16" in PRECISIONS:
        sides["firm bf16"] = lambda n: our_seconds("bf16", n)
    found = {name: [] for name in sides}
    for _ in range(ROUNDS):
        for name, seconds in sides.items():
            found[name].append(whole(seconds(1), seconds(ITERATIONS)))
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    print(f"one contract search of LeWM on {THREADS} threads of {cpu}; {REFERENCE}, PyTorch {torch.__version__}; medians of {ROUNDS} rounds")
    middle = {k: statistics.median(v) for k, v in found.items()}
    for name, seconds in middle.items():
        beside = "" if name.startswith("reference") else f"   {middle['reference fp32'] / seconds:.2f}x faster than the reference"
        print(f"{name:16}{seconds:8.2f} s  ({min(found[name]):.2f} to {max(found[name]):.2f}){beside}")


if __name__ == "__main__":
    if "--inside" in sys.argv:
        main()
    else:
        run_inside(__file__, lewm.PACKAGES + ["gymnasium", "loguru"], alone=[REFERENCE])
