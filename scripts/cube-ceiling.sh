#!/usr/bin/env bash
# cube-ceiling.sh - what the search reaches on Cube with the true simulator as its model: contract mode, 25 controls, pairs that are not
# solved at the start, two seeds of the planner's noise. That is the ceiling of the contract, and its luck.
#
#   scripts/cube-ceiling.sh OUT [PROCESSES [SECONDS [FLAGS...]]]     (FIRM: the program, build/firm if not set; PAIRS: 150 if not set)
#
# PROCESSES (all cores) of one thread share the trials; each finished trial is a file below OUT. After SECONDS (none: no limit) they are
# stopped, and the same command goes on where they were. At the end OUT has eval-cube-oracle-tuning-SEED-contract-25.json for every
# finished seed, ceiling.json with what is there, and ceiling.tgz with all of it. Results are kept by
#
#   firm report docs/results OUT --lines docs/results
#
# FLAGS go to `firm eval`: `--candidates 8 --iterations 1` tries the script in a minute. The pairs are the first PAIRS of the 200 of scripts/cube_ensembles.sh.
set -euo pipefail
firm=$(realpath "${FIRM:-build/firm}") pairs=${PAIRS:-150}
out=${1:?usage: scripts/cube-ceiling.sh OUT [PROCESSES [SECONDS]]} processes=${2:-$(nproc)} seconds=${3:-1000000}
flags=${*:4}
mkdir -p "$out"
cd "$out"

if [ ! -e t.h5 ]; then
    $firm collect cube --seed 7 --episodes 2889 -o f.h5 --threads "$processes" --quiet
    $firm trials cube --data f.h5 --unsolved --trials 200 --seed 7 --offset 25 -o t.new --quiet
    mv t.new t.h5
    rm f.h5
fi

one() { # seed: all its trials that nobody else runs
    $firm eval cube --arms oracle-dynamics --mode contract --trials-file t.h5 --trials "$pairs" --planner-seed "$1" --pieces "seed-$1" --threads 1 --quiet \
        -o "eval-cube-oracle-tuning-$1-contract-25.json" $flags >/dev/null
}
left=$((seconds - SECONDS))
export -f one
export firm pairs flags
for i in $(seq "$processes"); do
    order="1 2"
    [ $((i % 2)) = 1 ] || order="2 1"
    # shellcheck disable=SC2086
    timeout "$left" bash -c 'set -e; for seed in "$@"; do one "$seed"; done' _ $order 2>"log-$i.txt" &
done
failed=0
for job in $(jobs -p); do
    wait "$job" || { code=$?; [ $code = 124 ] || failed=$code; }
done

python3 - <<'PYTHON'
import glob, json
seeds, rows = {}, {}
for path in sorted(glob.glob("seed-*/oracle-dynamics/*/trial.json")):
    piece = json.load(open(path))
    seeds.setdefault(path.split("/")[0], {})[piece["trial"]] = piece
for name, pieces in seeds.items():
    n, s = len(pieces), sum(p["success"] for p in pieces.values())
    rows[name] = {"trials": n, "successes": s, "percent": round(100 * s / n, 1), "solves": sum(p["solves"] for p in pieces.values()),
                  "seconds_in_search": round(sum(p["seconds"] for p in pieces.values()))}
both = set.intersection(*(set(p) for p in seeds.values())) if len(seeds) == 2 else set()
if both:
    a, b = ([seeds[k][t]["success"] for t in sorted(both)] for k in sorted(seeds))
    rows["both"] = {"trials": len(both), "first": sum(a), "second": sum(b), "either": sum(x | y for x, y in zip(a, b)),
                    "each": sum(x & y for x, y in zip(a, b))}
json.dump(rows, open("ceiling.json", "w"), indent=1)
print(json.dumps(rows))
PYTHON
tar -czf ceiling.tgz t.h5 ceiling.json log-*.txt $(ls -d seed-* eval-*.json 2>/dev/null)
exit $failed
