#!/usr/bin/env bash
# fresh-trials.sh - the shipped models on trials that nothing was chosen by: README's table.
#
#     scripts/fresh-trials.sh PROGRAM OUT [TRIALS [LEWM]]
#
# Evaluates every shipped model in both modes on goals 25 and 50 controls away: TRIALS (100) pairs from fresh episodes of seed 2031,
# none solved at the start, with random actions beside. LEWM is a folder of TASK.safetensors trained by `firm train --world lewm`; its
# models then meet the same trials. A result that is in OUT is kept. Then, to keep the results and to make the tables:
#
#     firm report docs/results OUT --lines docs/results
#     firm report docs/results --markdown docs/results/report.md
#     scripts/check-docs.py --fix
set -euo pipefail
program=$1 out=$2 trials=${3:-100} lewm=${4:-}
models=$(dirname "$0")/../models
mkdir -p "$out"
for model in "$models"/*.safetensors; do
    task=$(basename "$model" .safetensors)
    for offset in 25 50; do
        for mode in contract reach; do
            file=$out/eval-$task-shipped-fresh-$mode-$offset.json
            [ ! -e "$file" ] || continue
            arms=(--arms firm,random)
            [ -z "$lewm" ] || [ ! -e "$lewm/$task.safetensors" ] || arms=(--lewm "$lewm/$task.safetensors" --arms firm,lewm,random)
            "$program" eval "$task" --model "$model" --mode "$mode" --offset "$offset" --trials "$trials" --seed 2031 --unsolved "${arms[@]}" -o "$file"
        done
    done
done
