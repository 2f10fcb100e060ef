#!/usr/bin/env bash
# fresh-trials.sh - the shipped models on trials that nothing was chosen by: README's table.
#
#     scripts/fresh-trials.sh PROGRAM OUT [TRIALS [LEWM]]
#
# Evaluates every shipped model in both modes on goals 25 and 50 controls away, and in reach mode on goals 100 away (TwoRoom 90): TRIALS
# (200) fresh pairs, none solved at the start, with random actions beside. DEVICE=cuda lets a GPU make the contract searches. LEWM is a
# folder of TASK.safetensors trained by `firm train --world lewm`; its models then meet the same trials. A result that is in OUT is kept.
# Then, to keep the results and to make the tables:
#
#     firm report docs/results OUT --lines docs/results
#     firm report docs/results --markdown docs/results/report.md
#     scripts/check-docs.py --fix
set -euo pipefail
program=$1 out=$2 trials=${3:-200} lewm=${4:-}
models=$(dirname "$0")/../models
mkdir -p "$out"

one() { # task mode offset
    local file=$out/eval-$1-shipped-fresh-$2-$3.json arms=(--arms firm,random) device=()
    [ ! -e "$file" ] || return 0
    [ -z "$lewm" ] || [ ! -e "$lewm/$1.safetensors" ] || arms=(--lewm "$lewm/$1.safetensors" --arms firm,lewm,random)
    [ "$2" != contract ] || device=(--device "${DEVICE:-cpu}")
    "$program" eval "$1" --model "$models/$1.safetensors" --mode "$2" --offset "$3" --trials "$trials" --draw fresh --unsolved "${arms[@]}" "${device[@]}" -o "$file"
}

for model in "$models"/*.safetensors; do
    task=$(basename "$model" .safetensors)
    for offset in 25 50; do
        for mode in contract reach; do one "$task" $mode $offset; done
    done
    far=100
    [ "$task" != tworoom ] || far=90 # its longest episodes
    one "$task" reach $far
done
