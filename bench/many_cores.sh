#!/usr/bin/env bash
# many_cores.sh [BUILD] - what many cores make of planning and training, in about three minutes: one table of figures, and
# behind it where the time of rollouts goes for every split. For a machine of 8 cores or more that is otherwise idle.
#
# BUILD (build) holds firm, bench_plan_team and bench_plan_kernels:
#     cmake --preset release && ninja -C build firm bench_plan_team bench_plan_kernels
# Libraries that the machine lacks may lie in BUILD/lib. THREADS names the numbers of threads (1 2 4 8 16, up to the
# machine's cores), PYTHON an interpreter with PyTorch, which is left out where there is none. Everything is printed; all
# JSON lines go into OUT, if that names a file.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
build=${1:-build}
python=${PYTHON:-python3}
for program in firm bench_plan_team bench_plan_kernels; do
    [ -x "$build/$program" ] || { echo "many_cores.sh: $build/$program is missing; the top of this script says how it is made" >&2; exit 2; }
done
here=$(mktemp -d)
lines=$here/lines
trap 'rm -rf "$here"' EXIT
firm=$build/firm
if [ -d "$build/lib" ]; then # for firm alone: Python has its own
    firm=$here/firm
    printf '#!/bin/sh\nLD_LIBRARY_PATH="%s" exec "%s" "$@"\n' "$(realpath "$build/lib")" "$(realpath "$build/firm")" >"$firm"
    chmod +x "$firm"
fi
cores=$(nproc)
read -ra wanted <<<"${THREADS:-1 2 4 8 16}"
threads=()
for n in "${wanted[@]}"; do [ "$n" -le "$cores" ] && threads+=("$n"); done
most=${threads[-1]}
begun=$SECONDS
load() { echo "[$((SECONDS - begun)) s, load $(cut -d' ' -f1 /proc/loadavg)] $1"; }

bf16=bf16
"$firm" bench plan tworoom --threads 1 --precision bf16 --repeats 3 --set plan.contract_iterations=1 --json >/dev/null 2>&1 || bf16=
lscpu | grep -E '^(Model name|CPU\(s\)|Thread|Core|Socket|L1d|L2|L3)'
echo "huge pages: $(cat /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null)"
load "splits of a rollout on $most threads"
for precision in fp32 $bf16; do
    "$build/bench_plan_team" "$most" 300 $precision
    "$build/bench_plan_team" "$most" 300 $precision unasked | tail -n "$((1 + $(printf '%s\n' 1 2 4 8 16 | awk -v m="$most" '$1 <= m' | wc -l)))"
done
load "contract searches"
for round in 1 2; do
    for n in "${threads[@]}"; do
        [ $round = 2 ] && [ "$n" -lt "$most" ] && [ "$n" -gt 1 ] && continue
        for precision in fp32 $bf16; do
            "$firm" bench plan tworoom --threads "$n" --precision $precision --repeats $((n < 4 ? 3 : 9)) --json | tee -a "$lines" >/dev/null
        done
    done
done
load "training, 1 and $most threads in turn"
for round in 1 2; do
    for n in 1 "$most"; do
        "$firm" bench train tworoom --threads "$n" --seconds 2 --json | tee -a "$lines" >/dev/null
    done
done
load "training in other pieces, $most threads"
for pieces in "4 32" "1 32" "2 16"; do
    read -r frontend rollout <<<"$pieces"
    "$firm" bench train tworoom --threads "$most" --seconds 1 --set train.frontend_shard="$frontend" --set train.rollout_shard="$rollout" --set train.lanes=32 --json |
        tr -d '\n\t' | sed "s/^/shards of $frontend and $rollout, 32 lanes: /"
    echo
done
load "PyTorch's contract search"
# compiled forms take a minute to make, so only where they matter most
torch_beside() { timeout "$1" "$python" bench/cpu_torch.py --firm "$firm" --threads "$2" --rounds 1 --only plan "${@:3}"; }
torch_beside 60 1 --eager || echo "many_cores.sh: no PyTorch figure for one thread"
torch_beside 75 "$most" || torch_beside 40 "$most" --eager || echo "many_cores.sh: no PyTorch figure for $most threads"
load "one core and two: kernels, splits"
for precision in fp32 $bf16; do "$build/bench_plan_kernels" 1 $precision; done
for n in 1 2; do
    for precision in fp32 $bf16; do
        "$build/bench_plan_team" "$n" 300 $precision | tail -n "$n"
        "$build/bench_plan_team" "$n" 300 $precision unasked | tail -n "$n"
    done
done
load "the figures"
[ -n "${OUT:-}" ] && cp "$lines" "$OUT"
python3 - "$lines" <<'PY'
import json, sys
text, found = open(sys.argv[1]).read(), []
decoder, at = json.JSONDecoder(), 0
while at < len(text):
    if text[at].isspace():
        at += 1
        continue
    value, at = decoder.raw_decode(text, at)
    found.append(value)
plan = [f for f in found if "ms_per_solve" in f]
alone = {}
print(f"{'threads':>7} {'precision':>9} {'way':>10} {'ms':>8} {'best ms':>8} {'fma GFLOP/s':>11} {'of fma':>7} {'best':>6}  draw  roll price   fit")
for f in plan:
    print(f"{f['threads']:7} {f['precision']:>9} {f['way']:>10} {f['ms_per_solve']:8.1f} {f['ms_best']:8.1f} {f['fma_gflops']:11.0f} {f['fraction_of_fma']:7.3f} {f['fraction_of_fma_best']:6.3f} " + " ".join(f"{f['share_' + k]:5.3f}" for k in ("draw", "roll", "price", "fit")))
for n in sorted({f["threads"] for f in plan}):
    of = lambda p: [f["ms_per_solve"] for f in plan if f["threads"] == n and f["precision"] == p]
    if of("bf16"):
        print(f"bf16 beside fp32, {n} threads: " + ", ".join(f"{a / b:.2f}x" for a, b in zip(of("fp32"), of("bf16"))))
train = [f for f in found if "frontend_frames_per_s" in f]
for f in train:
    print(f"training, {f['threads']:2} threads: frontend {f['frontend_frames_per_s']:7.0f} frames/s ({f['fraction_of_fma_frontend']:.3f} of fma), recurrent {f['recurrent_updates_per_s']:6.2f} updates/s ({f['fraction_of_fma_recurrent']:.3f}), fma {f['fma_gflops']:.0f} GFLOP/s")
for a, b in zip(train[::2], train[1::2]):
    print(f"{b['threads']} threads beside {a['threads']}: frontend {b['frontend_frames_per_s'] / a['frontend_frames_per_s']:.1f}x, recurrent {b['recurrent_updates_per_s'] / a['recurrent_updates_per_s']:.1f}x")
PY
