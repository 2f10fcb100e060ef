#!/usr/bin/env bash
# compare_torch.sh [--world firm|lewm] [--device cuda|cpu] [TASK] [...] - firm and PyTorch on the same machine in one run,
# with the ratios.
#
# cuda: milliseconds of one contract search and of one among a hundred, recurrent training updates per second. Needs
# build-cuda/firm (make cuda), a CUDA GPU, and Python with PyTorch.
# cpu: the search, recurrent and frontend training on all cores, in turn. Needs build/firm (make build) and Python
# with PyTorch; a C++ compiler for PyTorch's compiled form. PYTHON names the interpreter (python3).
# lewm: the same of LeWM's searches and, on a GPU, updates; bench/lewm_torch.py says how, and which further flags there
# are (--out FILE.json, --rounds N).
set -euo pipefail
cd "$(dirname "$0")/.."
world=firm device=cuda python=${PYTHON:-python3}
while [ $# -gt 1 ]; do
    case $1 in
    --world) world=$2 ;;
    --device) device=$2 ;;
    *) break ;;
    esac
    shift 2
done
task=tworoom
case ${1:-} in
'' | -*) ;;
*) task=$1; shift ;;
esac
case $world in firm | lewm) ;; *) echo "compare_torch.sh: --world is firm or lewm, not '$world'" >&2; exit 2 ;; esac
case $device in
cpu) firm=build/firm how="make build" ;;
cuda) firm=build-cuda/firm how="make cuda" ;;
*) echo "compare_torch.sh: --device is cuda or cpu, not '$device'" >&2; exit 2 ;;
esac
[ -x "$firm" ] || { echo "compare_torch.sh: $firm is missing; run $how" >&2; exit 2; }
command -v "$python" >/dev/null || { echo "compare_torch.sh: $python is missing" >&2; exit 2; }
case $world-$device in
lewm-*) exec "$python" bench/lewm_torch.py --firm "$firm" --device "$device" --task "$task" "$@" ;;
firm-cpu) exec "$python" bench/cpu_torch.py --firm "$firm" --task "$task" "$@" ;;
esac
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"$python" bench/plan_torch.py --task "$task" --json >"$out/torch.json"
for precision in fp32 tf32 bf16; do
    "$firm" bench plan "$task" --device cuda --precision $precision --json >"$out/plan-$precision.json"
done
# a build whose training cannot run on the GPU says so and leaves the file empty
"$firm" bench train "$task" --device cuda --json >"$out/train.json" || true
"$python" - "$out" <<'PY'
import json, os, sys
folder = sys.argv[1]
load = lambda name: json.load(open(os.path.join(folder, name)))
torch = load("torch.json")
print(f"{torch['task']} on {torch['device_name']}, PyTorch {torch['torch']}")
print(f"{'':8}{'firm ms':>10}{'eager':>10}{'graph':>10}{'compiled':>10}{'batch':>10}{'PyTorch':>10}   firm is faster by")
for p, t in torch["plan"].items():
    f = load(f"plan-{p}.json")
    best = min(x for x in (t["eager_ms"], t["graph_ms"], t["compiled_ms"]) if x)
    compiled = f"{t['compiled_ms']:.3f}" if t["compiled_ms"] else "-"
    print(f"{p:8}{f['ms_per_solve']:10.3f}{t['eager_ms']:10.3f}{t['graph_ms']:10.3f}{compiled:>10}{f['batch_ms_per_solve']:10.3f}{t['batch_ms_per_solve']:10.3f}"
          f"   {t['eager_ms'] / f['ms_per_solve']:.1f}x eager, {best / f['ms_per_solve']:.1f}x its best; batch {t['batch_ms_per_solve'] / f['batch_ms_per_solve']:.1f}x")
ours = load("train.json")["recurrent_updates_per_s"] if os.path.getsize(os.path.join(folder, "train.json")) else None
for p, t in torch["train"].items():
    best = max(x for x in (t["eager_updates_per_s"], t["graph_updates_per_s"]) if x)
    ratio = f"firm {ours:.1f}, {ours / best:.2f}x" if ours else "firm: not measured"
    print(f"recurrent updates/s, PyTorch {p}: eager {t['eager_updates_per_s']:.1f}, graph {t['graph_updates_per_s'] or float('nan'):.1f}; {ratio}")
PY
