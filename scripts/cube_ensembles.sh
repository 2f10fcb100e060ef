#!/usr/bin/env bash
# Cube: one frontend, three transitions on it, and one with averaged weights; contract 25 on unsolved tuning pairs by one, by three, with
# prices on what they disagree on. Makes docs/results/cube-ensembles.jsonl: 7 minutes on an H200 with 16 cores.
#
#   scripts/cube_ensembles.sh OUT [cuda|cpu]      (FIRM: the program, build/firm if not set)
set -euo pipefail
source "$(dirname "$0")/cube_rows.sh"
firm=$(realpath "${FIRM:-build/firm}") shipped=$(realpath models/cube.safetensors)
out=${1:?usage: scripts/cube_ensembles.sh OUT [cuda|cpu]} device=${2:-cuda}
mkdir -p "$out"
cd "$out"
rows=cube-ensembles.jsonl
: > $rows

# ---- data: 2,600 training episodes, 2,048 x 8 mixed interventions ----
$firm collect cube --seed 7 --episodes 2889 -o f.h5 --quiet
$firm trials cube --data f.h5 --unsolved --trials 200 --seed 7 --offset 25 -o t.h5 --quiet
$firm intervene cube --config cube-plus --data f.h5 --mixed --anchors 2048 --seed 1 -o i.h5 --quiet
settings="--config cube-plus --set train.structured=optional"
$firm pack cube --data f.h5 --branches i.h5 -o p.h5 $settings --pictures --quiet

# ---- one frontend, then four runs from stage belief on, side by side ----
settings="$settings --set stage.reading.updates=1 --set train.recorded=2048 --device $device --quiet"
gate $firm train cube --pack p.h5 -o base --seed 1 $settings --until history
cp -r base seed-1
from="--init base/checkpoint.safetensors --from belief"
gate $firm train cube --pack p.h5 -o seed-1 --seed 1 --resume $settings &
gate $firm train cube --pack p.h5 -o seed-2 --seed 2 $from $settings &
gate $firm train cube --pack p.h5 -o seed-3 --seed 3 $from $settings &
gate $firm train cube --pack p.h5 -o averaged --seed 1 $from $settings --set stage.rollout.floor=0.2 --set stage.rollout.average=0.3 &
wait
members="--member seed-2/model.safetensors --member seed-3/model.safetensors"
$firm export seed-1/model.safetensors --half -o one.safetensors
$firm export averaged/model.safetensors --half -o averaged.safetensors
$firm export seed-1/model.safetensors $members --half -o three.safetensors
$firm export seed-1/model.safetensors $members --member averaged/model.safetensors --half -o four.safetensors

# ---- rows, side by side: outcomes do not depend on that ----
row shipped "$shipped" &
row one one.safetensors &
row averaged averaged.safetensors &
row three three.safetensors &
for price in 0.3 1 3; do row three-price-$price three.safetensors --set plan.ensemble_price=$price & done
row three-quantile-1 three.safetensors --set plan.ensemble_quantile=1 &
row four four.safetensors &
wait
