#!/usr/bin/env python3
"""cpu_torch.py - firm and PyTorch on the same CPU cores in one run, in turn: a contract search, recurrent training
updates, and training of the frontend. bench/compare_torch.sh --device cpu runs it and prints the ratios.

    python3 bench/cpu_torch.py --firm build/firm [--task tworoom|cube] [--threads N] [--rounds 3] [--only plan] [--eager]
        [--json]

A round measures PyTorch and then firm for each kind of work; the figure of each is the median of the rounds. PyTorch
has its best case: eager and compiled, float32 and bfloat16, channels-last images. Its frontend is tokenizer and
grounder with one loss, less than what firm computes in an update (it also takes differences of two frames).
Weights and data are random; the time does not depend on them. --only plan leaves training out, --eager the
compiled forms.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import plan_torch as work
from plan_torch import F, torch

work.DEVICE = "cpu"


class Frontend(torch.nn.Module):
    """The tokenizer's four stages and the flat grounder (src/model/tokenizer.c, grounder.c)."""

    def __init__(self, config):
        super().__init__()
        sizes = [32, 64, 96, 64]
        first = torch.nn.Conv2d(3, sizes[0], 4, 4)
        self.conv = torch.nn.ModuleList([first] + [torch.nn.Conv2d(a, b, 3, 2, 1) for a, b in zip(sizes, sizes[1:])])
        self.norm = torch.nn.ModuleList(torch.nn.GroupNorm(8, n) for n in sizes)
        self.position = torch.nn.Parameter(0.02 * torch.randn(64, 7, 7))
        self.ground = torch.nn.Sequential(torch.nn.LayerNorm(3136), torch.nn.Linear(3136, 512), torch.nn.GELU(approximate="tanh"), torch.nn.Linear(512, config))

    def forward(self, image):
        h = image
        for conv, norm in zip(self.conv, self.norm):
            h = F.gelu(norm(conv(h)), approximate="tanh")
        return self.ground((h + self.position).flatten(1))


def seconds(call, least=2.0, few=3):
    """Median time of a call: at least `few` calls and `least` seconds."""
    call()
    times, end = [], time.perf_counter() + least
    while len(times) < few or time.perf_counter() < end:
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def update_of(model, loss):
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def update():
        optimiser.zero_grad(set_to_none=True)
        loss().backward()
        optimiser.step()

    return update


def torch_works(task, batch, frames, wanted_works):
    """name -> (what it counts per call, call) of what is wanted; compiled forms are left out where nothing compiles."""
    net = work.Transition(task["config"], task["action"]).eval()
    low = work.Transition(task["config"], task["action"]).eval().to(torch.bfloat16)
    recurrent = work.Recurrent(task)
    front = Frontend(task["config"]).to(memory_format=torch.channels_last)
    image = torch.rand(frames, 3, 224, 224).contiguous(memory_format=torch.channels_last)
    wanted = torch.randn(frames, task["config"])
    half = batch // 2
    shapes = [(half, 128), (half, 3, task["config"]), (half, work.HORIZON, task["action"]), (half, work.HORIZON, task["config"]), (half, task["chi"]), (half, work.HORIZON, task["chi"])]
    sources = [[0.3 * torch.randn(s) for s in shapes] for _ in range(2)]

    def search(step, dtype):
        one = work.Search(task, 1, dtype, step)

        def call():
            with torch.no_grad():
                one.run()

        return call

    def rollout(loss):
        return lambda: loss(*sources[0], 0.5) + loss(*sources[1], 1.0)

    works = {
        "plan fp32 eager": (1, search(net, torch.float32)),
        "plan bf16 eager": (1, search(low, torch.bfloat16)),
        "recurrent eager": (1, update_of(recurrent, rollout(recurrent.loss))),
        "frontend eager": (frames, update_of(front, lambda: F.mse_loss(front(image), wanted))),
    }
    fused_loss, fused_front = torch.compile(recurrent.loss, dynamic=False), torch.compile(front, dynamic=False)
    compiled = {
        "plan fp32 compiled": (1, search(torch.compile(net, dynamic=False), torch.float32)),
        "plan bf16 compiled": (1, search(torch.compile(low, dynamic=False), torch.bfloat16)),
        "recurrent compiled": (1, update_of(recurrent, rollout(fused_loss))),
        "frontend compiled": (frames, update_of(front, lambda: F.mse_loss(fused_front(image), wanted))),
    }
    works = {name: pair for name, pair in works.items() if wanted_works(name)}
    for name, (count, call) in compiled.items():
        if not wanted_works(name):
            continue
        try:
            call()
            works[name] = (count, call)
        except Exception as why:
            print(f"cpu_torch.py: {name} does not work here ({type(why).__name__}); left out", file=sys.stderr)
    return works


def firm_says(firm, words, keys):
    done = subprocess.run([firm, "bench", *words, "--json"], capture_output=True, text=True)
    if done.returncode:
        if "bf16" in words:  # a processor without such instructions
            return {}
        sys.exit(f"cpu_torch.py: {' '.join([firm, 'bench', *words])} failed: {done.stderr.strip()}")
    said = json.loads(done.stdout)
    return {name: said[key] for name, key in keys.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--firm", required=True)
    parser.add_argument("--task", choices=work.TASKS, default="tworoom")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["plan"])
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--json", action="store_true")
    a = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(a.threads)
    threads = ["--threads", str(a.threads)]
    first = firm_says(a.firm, ["train", a.task, *threads, "--seconds", "0.1"], {"batch": "recurrent_batch", "frames": "frontend_batch"})
    wanted = lambda name: not (a.only and not name.startswith(a.only)) and not (a.eager and name.endswith("compiled"))
    works = torch_works(work.TASKS[a.task], first["batch"], first["frames"], wanted)
    rounds = []
    for _ in range(a.rounds):
        found = {}
        for name, (count, call) in works.items():
            took = seconds(call)
            found[name] = 1e3 * took if name.startswith("plan") else count / took
        found |= firm_says(a.firm, ["plan", a.task, *threads], {"firm plan fp32": "ms_per_solve", "fma_gflops": "fma_gflops", "fraction_of_fma": "fraction_of_fma"})
        found |= firm_says(a.firm, ["plan", a.task, *threads, "--precision", "bf16"], {"firm plan bf16": "ms_per_solve"})
        if not a.only:
            found |= firm_says(a.firm, ["train", a.task, *threads], {"firm recurrent": "recurrent_updates_per_s", "firm frontend": "frontend_frames_per_s"})
        rounds.append(found)
    figure = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}
    torch_best = lambda kind, pick: pick(v for k, v in figure.items() if k.startswith(kind))
    plan32, plan16 = torch_best("plan fp32", min), torch_best("plan bf16", min)
    ratio = {"plan_fp32": plan32 / figure["firm plan fp32"]}
    for kind in () if a.only else ("recurrent", "frontend"):
        ratio[kind] = figure["firm " + kind] / torch_best(kind, max)
    if "firm plan bf16" in figure:
        ratio["plan_bf16_beside_fp32"] = plan32 / figure["firm plan bf16"]
        ratio["plan_bf16"] = plan16 / figure["firm plan bf16"]
    result = {"task": a.task, "torch": torch.__version__, "threads": a.threads, "rounds": a.rounds, "figures": figure, "firm_is_faster_by": ratio}
    if a.json:
        print(json.dumps(result))
        return
    print(f"{a.task} on {a.threads} threads, PyTorch {result['torch']}, {figure['fma_gflops']:.0f} GFLOP/s of multiply-adds, medians of {a.rounds} rounds")
    for name, value in figure.items():
        if "fma" not in name:
            unit = "ms" if "plan" in name else "frames/s" if "frontend" in name else "updates/s"
            print(f"  {name:22}{value:10.2f} {unit}")
    words = {"plan_fp32": "planning, fp32 beside PyTorch's best fp32", "plan_bf16_beside_fp32": "planning, bf16 beside PyTorch's best fp32", "plan_bf16": "planning, bf16 beside PyTorch's best bf16", "recurrent": "recurrent training beside PyTorch's best", "frontend": "frontend training beside PyTorch's best"}
    for name, value in ratio.items():
        print(f"  {words[name]}: {value:.2f}x")


if __name__ == "__main__":
    main()
