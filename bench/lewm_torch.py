#!/usr/bin/env python3
"""lewm_torch.py - LeWM here and in PyTorch on the same machine in one run, in turn: a training update of 128 clips and
contract searches. bench/compare_torch.sh --world lewm runs it.

    python3 bench/lewm_torch.py --firm build-cuda/firm --device cuda [--rounds 2] [--out FILE.json]
    python3 bench/lewm_torch.py --firm build/firm --device cpu [--threads 2] [--rounds 3]

The model is the published one with random weights; the time does not depend on them. PyTorch has its best case: one
matrix for queries, keys and values, scaled_dot_product_attention, fused AdamW, bf16 autocast, and every form it offers:
  eager     each operation launched from Python
  graph     a whole search, or a whole update, captured as one CUDA graph and replayed
  compiled  torch.compile, on a GPU inside such a graph
The search rolls out as the reference does: 300 candidates, 30 iterations (Cube 10), 5 macro steps, windows of up to 3
latents. Context 1 starts from one frame, as here and as the reference's default does; context 3 starts from three, and
nothing here does the same work.

A round measures every form of PyTorch once and then firm; figures are medians of the rounds. On a CPU both sides make
a few iterations of a search (--iterations), whose time is multiplied up to a whole search. A form that fails, or that
comes after --budget seconds, is a dash.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    sys.exit("lewm_torch.py: PyTorch is not installed here; install it (pip install torch) to compare")

CANDIDATES, ELITES, HORIZON, CONTEXT = 300, 30, 5, 3
TASKS = {"tworoom": (10, 30), "pusht": (10, 30), "reacher": (10, 30), "cube": (25, 10)}  # macro action, iterations
WIDTH, DEPTH, HEADS, MLP, PROJECTOR = 192, 12, 3, 768, 2048
P_DEPTH, P_HEADS, P_HEAD, P_MLP, DROPOUT = 6, 16, 64, 2048, 0.1
PARAMETERS = {10: 18034478, 25: 18034628}  # by numbers of a macro action


def linear(a, b, bias=True):
    return torch.nn.Linear(a, b, bias=bias)


class EncoderBlock(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = (torch.nn.LayerNorm(WIDTH, eps=1e-12) for _ in range(2))
        self.qkv, self.out = linear(WIDTH, 3 * WIDTH), linear(WIDTH, WIDTH)
        self.up, self.down = linear(WIDTH, MLP), linear(MLP, WIDTH)

    def forward(self, x):
        n, t, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, t, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, t, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class PredictorBlock(torch.nn.Module):
    def __init__(self):
        super().__init__()
        inner = P_HEADS * P_HEAD
        self.norm1, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv, self.out = linear(WIDTH, 3 * inner, bias=False), linear(inner, WIDTH)
        self.up, self.down = linear(WIDTH, P_MLP), linear(P_MLP, WIDTH)
        self.modulation = linear(WIDTH, 6 * WIDTH)

    def forward(self, x, s):
        n, t, _ = x.shape
        p = DROPOUT if self.training else 0.0
        shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(s).chunk(6, dim=-1)
        u = self.norm1(F.layer_norm(x, (WIDTH,), eps=1e-6) * (1 + scale1) + shift1)
        q, k, v = self.qkv(u).view(n, t, 3, P_HEADS, P_HEAD).permute(2, 0, 3, 1, 4)
        o = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True).transpose(1, 2).reshape(n, t, -1)
        x = x + gate1 * F.dropout(self.out(o), p)
        u = self.norm2(F.layer_norm(x, (WIDTH,), eps=1e-6) * (1 + scale2) + shift2)
        return x + gate2 * F.dropout(self.down(F.dropout(F.gelu(self.up(u)), p)), p)


class Head(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = linear(WIDTH, PROJECTOR), torch.nn.BatchNorm1d(PROJECTOR), linear(PROJECTOR, WIDTH)

    def forward(self, x):
        return self.down(F.gelu(self.norm(self.up(x.reshape(-1, WIDTH))))).reshape(x.shape)


class LeWM(torch.nn.Module):
    """The published sizes; sections 3 to 6 of the reference's description, docs/worlds.md here."""

    def __init__(self, action):
        super().__init__()
        self.patch = torch.nn.Conv2d(3, WIDTH, 14, 14)
        self.token = torch.nn.Parameter(0.02 * torch.randn(1, 1, WIDTH))
        self.place = torch.nn.Parameter(0.02 * torch.randn(1, 257, WIDTH))
        self.blocks = torch.nn.ModuleList(EncoderBlock() for _ in range(DEPTH))
        self.last = torch.nn.LayerNorm(WIDTH, eps=1e-12)
        self.projector, self.head = Head(), Head()
        self.first, self.up, self.down = linear(action, 10), linear(10, 768), linear(768, WIDTH)
        self.positions = torch.nn.Parameter(torch.randn(CONTEXT, WIDTH))
        self.predictor = torch.nn.ModuleList(PredictorBlock() for _ in range(P_DEPTH))
        self.norm = torch.nn.LayerNorm(WIDTH)

    def encode(self, rgb):
        """(n, 3, 224, 224) bytes -> (n, width)"""
        mean = torch.tensor((0.485, 0.456, 0.406), device=rgb.device).view(1, 3, 1, 1)
        std = torch.tensor((0.229, 0.224, 0.225), device=rgb.device).view(1, 3, 1, 1)
        x = self.patch((rgb / 255 - mean) / std).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(len(x), -1, -1), x), 1) + self.place
        for block in self.blocks:
            x = block(x)
        return self.projector(self.last(x[:, 0]))

    def embed(self, u):
        return self.down(F.silu(self.up(self.first(u))))

    def predict(self, z, c):
        """(n, t, width) latents and action embeddings -> what follows each"""
        x, s = z + self.positions[: z.shape[1]], F.silu(c)
        for block in self.predictor:
            x = block(x, s)
        return self.head(self.norm(x))


def sigreg(z):
    """z (T, B, width): 1024 random directions, 17 knots."""
    a = torch.randn(WIDTH, 1024, device=z.device)
    tau = torch.linspace(0, 3, 17, device=z.device)
    phi = torch.exp(-tau.square() / 2)
    weight = torch.full((17,), 2 * 3 / 16, device=z.device)
    weight[0] = weight[-1] = 3 / 16
    x = (z @ (a / a.norm(dim=0))).float().unsqueeze(-1) * tau
    error = (x.cos().mean(1) - phi).square() + x.sin().mean(1).square()
    return ((error * (weight * phi)).sum(-1) * z.shape[1]).mean()


def loss_of(model, frames, actions):
    """frames (B, 4, 3, 224, 224), actions (B, 4, action)"""
    z = model.encode(frames.flatten(0, 1)).view(len(frames), CONTEXT + 1, WIDTH)
    predicted = model.predict(z[:, :CONTEXT], model.embed(actions)[:, :CONTEXT])
    return (predicted - z[:, 1:]).square().mean() + 0.09 * sigreg(z.transpose(0, 1))


class Update:
    """One optimiser step on a fixed batch."""

    def __init__(self, o, loss):
        self.model = LeWM(o.action).to(o.device).train()
        count = sum(p.numel() for p in self.model.parameters())
        if count != PARAMETERS[o.action]:
            sys.exit(f"lewm_torch.py: the model has {count} parameters, the published one {PARAMETERS[o.action]}")
        cuda = o.device == "cuda"
        self.loss, self.kind = loss, o.device
        self.frames = torch.randint(0, 256, (o.clips, 4, 3, 224, 224), dtype=torch.uint8, device=o.device)
        self.actions = torch.randn(o.clips, 4, o.action, device=o.device)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=5e-5, weight_decay=1e-3, fused=True, **({"capturable": True} if cuda else {}))

    def run(self):
        self.optimiser.zero_grad(set_to_none=True)
        with torch.autocast(self.kind, torch.bfloat16):
            value = self.loss(self.model, self.frames, self.actions)
        value.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()


class Search:
    """`count` contract searches at once from `context` latents; buffers are fixed, so that a graph can replay it."""

    def __init__(self, o, model, count, context, dtype, predict):
        self.o, self.model, self.count, self.context, self.dtype, self.predict = o, model, count, context, dtype, predict
        self.past = torch.randn(count, 1, context, WIDTH, device=o.device, dtype=dtype)
        self.executed = torch.randn(count, 1, context - 1, o.action, device=o.device)
        self.goal = torch.randn(count, 1, WIDTH, device=o.device)
        self.plan = torch.zeros(count, HORIZON, o.action, device=o.device)

    @torch.no_grad()
    def run(self):
        n, a, o = self.count, self.o.action, self.o
        mean = torch.zeros(n, 1, HORIZON, a, device=o.device)
        spread = torch.ones(n, 1, HORIZON, a, device=o.device)
        for _ in range(o.iterations):
            u = mean + spread * torch.randn(n, CANDIDATES, HORIZON, a, device=o.device)
            u[:, 0] = mean[:, 0]
            c = self.model.embed(torch.cat((self.executed.expand(-1, CANDIDATES, -1, -1), u), 2).flatten(0, 1).to(self.dtype))
            z = self.past.expand(-1, CANDIDATES, -1, -1).flatten(0, 1)
            for t in range(HORIZON):
                first = max(0, self.context + t - CONTEXT)
                after = self.predict(z[:, first:], c[:, first : self.context + t])[:, -1:]
                z = torch.cat((z, after), 1)
            cost = (z[:, -1].view(n, CANDIDATES, WIDTH).float() - self.goal).square().sum(-1)
            best = cost.topk(ELITES, dim=1, largest=False).indices
            elite = torch.gather(u, 1, best[:, :, None, None].expand(-1, -1, HORIZON, a))
            mean, spread = elite.mean(1, keepdim=True), elite.std(1, keepdim=True)
        self.plan.copy_(mean[:, 0])


# ---- forms of the work ----


def wait(o):
    if o.device == "cuda":
        torch.cuda.synchronize()


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
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = name == "tf32"
    return torch.bfloat16 if name == "bf16" else torch.float32


def search(o, precision, count=1, context=1, compiled=False, graph=False):
    """A call that makes so many searches."""
    dtype = set_precision(precision)
    model = LeWM(o.action).to(o.device).to(dtype).eval()
    predict = torch.compile(model.predict, dynamic=False) if compiled else model.predict
    one = Search(o, model, count, context, dtype, predict)

    def call():
        set_precision(precision)
        one.run()

    return captured(call) if graph else call


def update(o, compiled=False, graph=False):
    set_precision("tf32")
    one = Update(o, torch.compile(loss_of, dynamic=False) if compiled else loss_of)
    return captured(one.run) if graph else one.run


def forms(o):
    """name -> (how to make the call, what its time is divided by); quick ones first, then what is compiled."""
    list_, scale = {}, o.iterations / o.whole  # of a search that is measured
    if o.device == "cuda":
        list_["train bf16 eager"] = (lambda: update(o), 1)
        for p in ("bf16", "tf32", "fp32"):
            list_[f"plan {p} eager"] = (lambda p=p: search(o, p), scale)
            list_[f"plan {p} graph"] = (lambda p=p: search(o, p, graph=True), scale)
            list_[f"batch {p} eager"] = (lambda p=p: search(o, p, count=o.batch), scale * o.batch)
            list_[f"plan {p} context 3 eager"] = (lambda p=p: search(o, p, context=3), scale)
            list_[f"plan {p} context 3 graph"] = (lambda p=p: search(o, p, context=3, graph=True), scale)
        list_["train bf16 compiled"] = (lambda: update(o, compiled=True), 1)
        list_["plan bf16 compiled"] = (lambda: search(o, "bf16", compiled=True, graph=True), scale)
        list_["plan tf32 compiled"] = (lambda: search(o, "tf32", compiled=True, graph=True), scale)
        list_["train bf16 compiled graph"] = (lambda: update(o, compiled=True, graph=True), 1)
        list_["batch bf16 compiled"] = (lambda: search(o, "bf16", count=o.batch, compiled=True), scale * o.batch)
        list_["plan fp32 compiled"] = (lambda: search(o, "fp32", compiled=True, graph=True), scale)
    else:
        for p in ("fp32", "bf16"):
            list_[f"plan {p} eager"] = (lambda p=p: search(o, p), scale)
            list_[f"plan {p} compiled"] = (lambda p=p: search(o, p, compiled=True), scale)
        list_["plan fp32 context 3 eager"] = (lambda: search(o, "fp32", context=3), scale)
    return {k: v for k, v in list_.items() if not o.only or any(w in k for w in o.only.split(","))}


def milliseconds(o, call, per):
    """Of one unit of work: median over at least three calls and half a second; long ones once."""
    times, end = [], time.perf_counter() + 0.5
    while len(times) < 3 or time.perf_counter() < end:
        begun = time.perf_counter()
        call()
        wait(o)
        times.append(1e3 * (time.perf_counter() - begun))
        if times[0] > 2000:
            break
    return statistics.median(times) / per


def say(o, text):
    print(f"lewm_torch.py: {time.perf_counter() - o.begun:4.0f} s: {text}", file=sys.stderr, flush=True)


def prepare(o):
    """The forms that work here, each called twice."""
    calls = {}
    for name, (make, per) in forms(o).items():
        if time.perf_counter() - o.begun > o.budget:
            say(o, f"{name}: left out, {o.budget} s are over")
            continue
        try:
            call = make()
            begun = time.perf_counter()
            call()
            wait(o)
            if time.perf_counter() - begun < 10:
                call()
                wait(o)
            calls[name] = (call, per)
            say(o, f"{name} is ready")
        except Exception as why:  # no compiler, no memory, an operation that cannot be captured
            say(o, f"{name}: left out ({type(why).__name__}: {str(why).splitlines()[0][:160] if str(why) else ''})")
            if o.device == "cuda":
                torch.cuda.empty_cache()
    return calls


def firm_says(o, words, keys):
    """{our name: figure}; empty where the program refuses."""
    command = [o.firm, "bench", *words, "--world", "lewm", "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    except (OSError, subprocess.TimeoutExpired) as why:
        say(o, f"{' '.join(command)}: {why}")
        return {}
    if done.returncode:
        say(o, f"{' '.join(command)}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else done.returncode}")
        return {}
    said = json.loads(done.stdout)
    return {name: said[key] * factor for name, (key, factor) in keys.items() if said.get(key) is not None}


def firm_once(o, names):
    """What stands beside these forms of PyTorch."""
    threads, found = ["--threads", str(o.threads)] if o.threads else [], {}
    whole = o.whole / o.iterations
    for p in ("bf16", "tf32", "fp32") if o.device == "cuda" else ("fp32", "bf16"):
        if not any(name.split()[0] != "train" and p in name.split() for name in names):
            continue
        words = ["plan", o.task, "--device", o.device, "--precision", p, "--set", f"plan.contract_iterations={o.iterations}", *threads]
        if o.device == "cuda":
            words += ["--batch", str(o.batch), "--repeats", "5"]
        else:
            words += ["--repeats", "3"]
        keys = {f"plan {p} firm": ("ms_per_solve", whole), f"batch {p} firm": ("batch_ms_per_solve", whole), f"perception {p} firm": ("perception_ms", 1)}
        found.update(firm_says(o, words, keys))
    if o.device == "cuda" and any(name.startswith("train") for name in names):
        found.update(firm_says(o, ["train", o.task, "--device", "cuda", "--set", f"lewm.batch={o.clips}"], {"train bf16 firm": ("ms_per_update", 1)}))
    return found


# ---- report ----


def best_of(figure, start, without="context"):
    of = {k: v for k, v in figure.items() if k.startswith(start) and not k.endswith("firm") and without not in k}
    return min(of.items(), key=lambda kv: kv[1]) if of else (None, None)


def ratios(figure):
    """Beside PyTorch's best of the same kind and precision, and of any precision."""
    found = {}
    for name, ours in figure.items():
        if not name.endswith("firm") or name.startswith("perception"):
            continue
        kind, precision = name.split()[:2]
        for label, start in ((f"{kind} {precision}", f"{kind} {precision}"), (f"{kind} {precision} beside any precision", kind + " ")):
            what, theirs = best_of(figure, start)
            if what:
                found[label] = {"ratio": theirs / ours, "beside": what}
    return found


def show(o, result):
    figure = result["figures"]
    cell = lambda name: f"{figure[name]:10.2f}" if name in figure else f"{'-':>10}"
    print(f"LeWM, {o.task}, {result['device_name']}, PyTorch {result['torch']}; milliseconds, medians of {o.rounds} rounds")
    if o.iterations != o.whole:
        print(f"a search is measured by {o.iterations} of its {o.whole} iterations, on both sides")
    if o.device == "cuda":
        print(f"{'update of ' + str(o.clips) + ' clips':26}{'firm':>10}{'eager':>10}{'compiled':>10}{'and graph':>10}")
        print(f"{'  bf16':26}{cell('train bf16 firm')}{cell('train bf16 eager')}{cell('train bf16 compiled')}{cell('train bf16 compiled graph')}")
    precisions = ("fp32", "tf32", "bf16") if o.device == "cuda" else ("fp32", "bf16")
    lines = [("one search", "plan", ""), (f"one of {o.batch} at once", "batch", ""), ("one search, context 3", "plan", "context 3 ")]
    for title, kind, extra in lines[: 3 if o.device == "cuda" else 1]:
        print(f"{title:26}{'firm':>10}{'eager':>10}{'graph':>10}{'compiled':>10}")
        for p in precisions:
            ours = "" if extra else "firm"
            print(f"{'  ' + p:26}{cell(f'{kind} {p} {ours}')}" + "".join(cell(f"{kind} {p} {extra}{form}") for form in ("eager", "graph", "compiled")))
    if o.device == "cpu":
        print(f"{'context 3, fp32, eager':36}{cell('plan fp32 context 3 eager')}")
    for p in precisions:
        if f"perception {p} firm" in figure:
            print(f"firm sees the frame and the goal in {figure[f'perception {p} firm']:.2f} ms before a search ({p}); PyTorch's search starts from latents")
            break
    for name, r in result["ratios"].items():
        print(f"{name}: firm is faster by {r['ratio']:.2f}x than {r['beside']}")


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--firm", required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--task", choices=TASKS, default="tworoom")
    parser.add_argument("--threads", type=int, default=0, help="cpu: of both sides; all cores")
    parser.add_argument("--rounds", type=int, default=0, help="2 on a GPU, 3 on a CPU")
    parser.add_argument("--batch", type=int, default=100, help="cuda: searches at once")
    parser.add_argument("--clips", type=int, default=128, help="of an update")
    parser.add_argument("--iterations", type=int, default=0, help="of a search that is measured; all on a GPU, 2 on a CPU")
    parser.add_argument("--budget", type=float, default=130, help="seconds until no further form of PyTorch is prepared")
    parser.add_argument("--only", default="", help="forms whose name holds one of these words, by commas")
    parser.add_argument("--out", help="all figures as JSON")
    o = parser.parse_args()
    o.begun = time.perf_counter()
    o.action, o.whole = TASKS[o.task]
    cuda = o.device == "cuda"
    o.rounds = o.rounds or (2 if cuda else 3)
    o.iterations = o.iterations or (o.whole if cuda else 2)
    if not cuda:
        o.threads = o.threads or len(os.sched_getaffinity(0))
        torch.set_num_threads(o.threads)
    elif not torch.cuda.is_available():
        sys.exit("lewm_torch.py: PyTorch finds no CUDA GPU here; compare with --device cpu")
    return o


def main():
    o = options()
    torch.manual_seed(0)
    calls, rounds = prepare(o), []
    for i in range(o.rounds):
        say(o, f"round {i + 1}")
        found = {name: milliseconds(o, call, per) for name, (call, per) in calls.items()}
        if o.device == "cuda":
            torch.cuda.empty_cache()
        found.update(firm_once(o, forms(o)))
        rounds.append(found)
    names = {name: None for found in rounds for name in found}
    figure = {name: statistics.median([found[name] for found in rounds if name in found]) for name in names}
    result = {
        "task": o.task,
        "device": o.device,
        "device_name": torch.cuda.get_device_name() if o.device == "cuda" else f"{o.threads} CPU threads",
        "torch": torch.__version__,
        "iterations_measured": o.iterations,
        "iterations": o.whole,
        "seconds": time.perf_counter() - o.begun,
        "figures": figure,
        "ratios": ratios(figure),
        "rounds": rounds,
    }
    show(o, result)
    if o.out:
        with open(o.out, "w") as f:
            json.dump(result, f, indent=1)
            f.write("\n")
    if not any(name.endswith("firm") for name in figure):
        sys.exit(1)


if __name__ == "__main__":
    main()
