#!/usr/bin/env python3
"""Microseconds that Controller.act() adds to firm_controller_act(): a loop in C and one in Python, alternating in one process.

    build-python/venv/bin/python bench/python_overhead.py        needs make build and cc

Both drive a controller with the same model, goal, frame and a small search, whose plan has 100 controls. A round lets both search,
then times the CALLS acts that follow: they hand out the plan's next controls, with the whole step around each. The line at the end
has the medians over the rounds; a search takes a thousand times as long and would hide the difference."""

import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time

import firm

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROUNDS, CALLS = 101, 99
LOOP = r"""
#include <firm.h>
#include <stdlib.h>
static firm_controller* ctl;
int open_loop(const char* path, const unsigned char* frame, const unsigned char* goal) {
    firm_model* model;
    firm_error err;
    firm_controller_params p = firm_controller_params_default();
    p.mode = FIRM_MODE_CONTRACT, p.candidates = 8, p.iterations = 1, p.horizon = 20, p.threads = 1;
    if (firm_model_load(path, &model, &err) || firm_controller_create(model, &p, &ctl, &err)) return 1;
    return firm_controller_goal(ctl, goal) || firm_controller_push(ctl, frame, NULL);
}
long long run_loop(int calls) {
    firm_step step;
    if (firm_controller_act(ctl, 0, &step) || !step.solved) abort();
    long long begin = firm_clock_ns();
    for (int i = 0; i < calls; i++)
        if (firm_controller_act(ctl, 0, &step) || step.solved) abort();
    return firm_clock_ns() - begin;
}
"""


def c_loop(folder):
    source, library = os.path.join(folder, "loop.c"), os.path.join(folder, "loop.so")
    with open(source, "w") as file:
        file.write(LOOP)
    build = os.path.join(ROOT, "build")
    subprocess.check_call(["cc", "-O2", "-shared", "-fPIC", source, "-o", library, "-I" + os.path.join(ROOT, "include"), "-L" + build, "-lfirm", "-Wl,-rpath," + build])
    loop = ctypes.CDLL(library)
    loop.run_loop.restype = ctypes.c_longlong
    return loop


def main():
    sims = firm.Simulators("tworoom")
    sims.reset([1])
    frame, goal = sims.frames()[0], sims.picture(sims.goals()[0])
    model = firm.load("tworoom")
    ctl = firm.Controller(model, mode="contract", candidates=8, iterations=1, horizon=20, threads=1)
    ctl.goal(goal)
    ctl.push(frame)
    with tempfile.TemporaryDirectory() as folder:
        loop = c_loop(folder)
        if loop.open_loop(model.path.encode(), frame.ctypes.data_as(ctypes.c_char_p), goal.ctypes.data_as(ctypes.c_char_p)):
            sys.exit("the loop in C did not open")
        c, python = [], []
        for _ in range(ROUNDS):
            c.append(loop.run_loop(CALLS) / CALLS / 1000)
            assert ctl.act().solved
            begin = time.perf_counter_ns()
            for _ in range(CALLS):
                ctl.act()
            python.append((time.perf_counter_ns() - begin) / CALLS / 1000)
    extra = statistics.median(p - q for p, q in zip(python, c))
    print(f"act() in C {statistics.median(c):.1f}, in Python {statistics.median(python):.1f}, difference {extra:.1f} microseconds (20 allowed)")
    sys.exit(extra > 20)


if __name__ == "__main__":
    main()
