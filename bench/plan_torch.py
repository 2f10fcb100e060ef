#!/usr/bin/env python3
"""plan_torch.py - the same work in PyTorch, on the same GPU: one contract search, a batch of searches, and
recurrent training updates. bench/compare_torch.sh runs it beside firm and prints the ratios. The same on a
CPU is cpu_torch.py.

    python3 bench/plan_torch.py [--task tworoom|cube] [--json]

The search is the contract of docs/performance.md: 300 candidates, 30 elites, 5 macro steps, 30 iterations
(Cube 10), nothing leaves the GPU. `eager` launches each operation from Python; `graph` captures a whole
search as one CUDA graph and replays it, PyTorch's best case: no Python, no launches. `compiled` is the
transition through torch.compile inside such a graph, where a compiler for it is installed. The training
update is the factual + intervention rollout of `firm bench train`: batch 512 + 512, 5 macro steps, AdamW.
Weights and data are random; the time does not depend on them.
"""
import argparse
import json
import statistics
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    sys.exit("plan_torch.py: PyTorch is not installed here; install it (pip install torch) to compare")

CANDIDATES, ELITES, HORIZON, HIDDEN, INNER, FIBER, BLOCKS = 300, 30, 5, 384, 768, 128, 2
DEVICE = "cuda"  # cpu_torch.py sets "cpu"
TASKS = {"tworoom": dict(config=2, action=10, chi=2, iterations=30), "cube": dict(config=3, action=25, chi=25, iterations=10)}


class Transition(torch.nn.Module):
    """x = [c, m, u] -> hidden -> residual blocks -> increments of c and m (src/model/transition.c)."""

    def __init__(self, config, action):
        super().__init__()
        self.enter = torch.nn.Linear(config + FIBER + action, HIDDEN)
        self.norm = torch.nn.ModuleList(torch.nn.LayerNorm(HIDDEN) for _ in range(BLOCKS))
        self.up = torch.nn.ModuleList(torch.nn.Linear(HIDDEN, INNER) for _ in range(BLOCKS))
        self.down = torch.nn.ModuleList(torch.nn.Linear(INNER, HIDDEN) for _ in range(BLOCKS))
        self.last = torch.nn.LayerNorm(HIDDEN)
        self.to_c = torch.nn.Linear(HIDDEN, config)
        self.to_m = torch.nn.Linear(HIDDEN, FIBER)

    def forward(self, c, m, u):
        h = self.enter(torch.cat((c, m, u), -1))
        for norm, up, down in zip(self.norm, self.up, self.down):
            h = h + down(F.gelu(up(norm(h)), approximate="tanh"))
        y = self.last(h)
        return c + self.to_c(y), m + self.to_m(y)


class Search:
    """`count` contract searches at once; buffers are fixed, so that a graph can replay it."""

    def __init__(self, task, count, dtype, step):
        self.task, self.count, self.dtype, self.step = task, count, dtype, step
        c, a = task["config"], task["action"]
        self.c0 = 0.3 * torch.randn(count, 1, c, device=DEVICE)
        self.m0 = torch.randn(count, 1, FIBER, device=DEVICE)
        self.goal = 0.3 * torch.randn(count, 1, c, device=DEVICE)
        self.plan = torch.zeros(count, HORIZON, a, device=DEVICE)

    def run(self):
        n, a = self.count, self.task["action"]
        mean = torch.zeros(n, 1, HORIZON, a, device=DEVICE)
        spread = torch.ones(n, 1, HORIZON, a, device=DEVICE)
        for _ in range(self.task["iterations"]):
            u = mean + spread * torch.randn(n, CANDIDATES, HORIZON, a, device=DEVICE)
            u[:, 0] = mean[:, 0]
            c = self.c0.expand(-1, CANDIDATES, -1).to(self.dtype)
            m = self.m0.expand(-1, CANDIDATES, -1).to(self.dtype)
            v = u.to(self.dtype)
            for t in range(HORIZON):
                c, m = self.step(c, m, v[:, :, t])
            cost = (c.float() - self.goal).square().sum(-1)
            best = cost.topk(ELITES, dim=1, largest=False).indices
            elite = torch.gather(u, 1, best[:, :, None, None].expand(-1, -1, HORIZON, a))
            mean, spread = elite.mean(1, keepdim=True), elite.std(1, keepdim=True)
        self.plan.copy_(mean[:, 0])


def median_ms(call, repeats=20):
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - begun))
    return statistics.median(times)


def captured(call):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def set_precision(name):
    """What firm calls fp32, tf32 and bf16, in PyTorch's words."""
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    return torch.bfloat16 if name == "bf16" else torch.float32


@torch.no_grad()
def plan_times(task, precision, batch):
    dtype = set_precision(precision)
    net = Transition(task["config"], task["action"]).cuda().to(dtype).eval()
    out = {}
    one = Search(task, 1, dtype, net)
    out["eager_ms"] = median_ms(one.run, 5)
    out["graph_ms"] = median_ms(captured(one.run))
    try:
        fused = torch.compile(net, dynamic=False)
        out["compiled_ms"] = median_ms(captured(Search(task, 1, dtype, fused).run))
    except Exception as why:  # no Triton, no host compiler: say so and go on
        print(f"plan_torch.py: torch.compile does not work here ({type(why).__name__})", file=sys.stderr)
        out["compiled_ms"] = None
    many = Search(task, batch, dtype, net)
    out["batch"] = batch
    out["batch_ms_per_solve"] = median_ms(captured(many.run), 5) / batch
    return out


class Recurrent(torch.nn.Module):
    """The fiber initialiser, the transition and the auxiliary decoder, with the rollout loss of src/train/losses.c."""

    def __init__(self, task):
        super().__init__()
        c = task["config"]
        self.hidden, self.out = torch.nn.Linear(128 + 2 * c, 512), torch.nn.Linear(512, FIBER)
        self.transition = Transition(c, task["action"])
        self.chi_hidden, self.chi_out = torch.nn.Linear(FIBER, 128), torch.nn.Linear(128, task["chi"])

    def chi(self, m):
        return self.chi_out(F.gelu(self.chi_hidden(m), approximate="tanh"))

    def loss(self, belief, past, u, target, chi0, chi, tail):
        c = past[:, 2]
        x = torch.cat((belief, past[:, 1] - past[:, 0], past[:, 2] - past[:, 1]), -1)
        m = self.out(F.gelu(self.hidden(x), approximate="tanh"))
        first, path, seen = self.chi(m), [c], []
        for t in range(HORIZON):
            c, m = self.transition(c, m, u[:, t])
            path.append(c)
            seen.append(self.chi(m))
        path = torch.stack(path, 1)
        wanted = torch.cat((past[:, 2:], target), 1)
        end = (path[:, -1] - target[:, -1]).square().mean(-1)
        return (
            2 * F.mse_loss(path[:, 1:], target)
            + 2 * F.mse_loss(path.diff(dim=1), wanted.diff(dim=1))
            + tail * end.topk(end.numel() // 4).values.mean()
            + 0.5 * F.mse_loss(torch.stack(seen, 1), chi)
            + 0.5 * F.mse_loss(first, chi0)
        )


def train_rates(task, precision):
    set_precision(precision)
    model = Recurrent(task).cuda()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True, capturable=True)
    shapes = [(512, 128), (512, 3, task["config"]), (512, HORIZON, task["action"]), (512, HORIZON, task["config"]), (512, task["chi"]), (512, HORIZON, task["chi"])]
    sources = [[0.3 * torch.randn(s, device=DEVICE) for s in shapes] for _ in range(2)]

    def update():
        optimiser.zero_grad(set_to_none=False)
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
            loss = model.loss(*sources[0], 0.5) + model.loss(*sources[1], 1.0)
        loss.backward()
        optimiser.step()

    eager = 1e3 / median_ms(update, 20)
    try:
        graph = 1e3 / median_ms(captured(update), 50)
    except Exception as why:
        print(f"plan_torch.py: the training update cannot be captured ({why})", file=sys.stderr)
        graph = None
    return {"eager_updates_per_s": eager, "graph_updates_per_s": graph}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--task", choices=TASKS, default="tworoom")
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    a = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("plan_torch.py: PyTorch finds no CUDA GPU here")
    torch.manual_seed(0)
    task = TASKS[a.task]
    result = {"task": a.task, "torch": torch.__version__, "device_name": torch.cuda.get_device_name(), "plan": {}, "train": {}}
    for precision in ("fp32", "tf32", "bf16"):
        result["plan"][precision] = plan_times(task, precision, a.batch)
        result["train"][precision] = train_rates(task, precision)
    if a.json:
        print(json.dumps(result))
        return
    print(f"PyTorch {result['torch']} on {result['device_name']}, {a.task}")
    for precision in result["plan"]:
        print(f"  {precision}: {result['plan'][precision]} {result['train'][precision]}")


if __name__ == "__main__":
    main()
