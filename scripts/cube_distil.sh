#!/usr/bin/env bash
# Cube: one transition that learns what three predict (firm intervene --imagined, source D), beside these three and one of them. Contract 25
# on unsolved tuning pairs, as scripts/cube_ensembles.sh does it. Made for an H200 with 16 cores. OUT/cube-distil.jsonl gets a line for each
# set of imagined records, for each model's distance from the teacher on those held out, and for each evaluation.
#
#   scripts/cube_distil.sh OUT [cuda|cpu]      (FIRM: the program, build/firm if not set)
#
# EPISODES, ANCHORS, TRIALS and SEARCHES set sizes, EXTRA further settings. TINY=1 chooses all of them so that every step runs within
# minutes on two cores; its figures mean nothing.
set -euo pipefail
source "$(dirname "$0")/cube_rows.sh"
firm=$(realpath "${FIRM:-build/firm}")
out=${1:?usage: scripts/cube_distil.sh OUT [cuda|cpu]} device=${2:-cuda}
mkdir -p "$out"
cd "$out"
rows=cube-distil.jsonl
: > $rows

short="--set stage.tokenizer.updates=4 --set stage.grounder.updates=8 --set stage.history.updates=4 --set stage.belief.updates=8"
short="$short --set stage.rollout.updates=16 --set stage.tokenizer.batch=8 --set stage.grounder.batch=8 --set stage.history.batch=8"
short="$short --set train.segments=192 --set train.held_out=32 --set train.frame_pool=96 --set train.frame_pool_i=32 --set train.frames=64"
for b in batch batch_i batch_d; do short="$short --set stage.belief.$b=16 --set stage.rollout.$b=64"; done
if [ -n "${TINY:-}" ]; then EPISODES=90 ANCHORS=8 TRIALS=4 SEARCHES=32 EXTRA=$short; fi
searches=${SEARCHES:-4096}

# ---- data: 2,600 training episodes, 2,048 x 8 mixed interventions ----
$firm collect cube --seed 7 --episodes "${EPISODES:-2889}" -o f.h5 --quiet
$firm trials cube --data f.h5 --unsolved --trials "${TRIALS:-200}" --seed 7 --offset 25 -o t.h5 --quiet
$firm intervene cube --config cube-plus --data f.h5 --mixed --anchors "${ANCHORS:-2048}" --seed 1 -o i.h5 --quiet
settings="--config cube-plus --set train.structured=optional --set stage.belief.batch_d=128 --set stage.rollout.batch_d=1024 --set stage.belief.records=65536 ${EXTRA:-}"
$firm pack cube --data f.h5 --branches i.h5 -o p.h5 $settings --pictures --quiet

# ---- one frontend, then three runs from stage belief on, side by side ----
settings="$settings --set stage.reading.updates=1 --set train.recorded=2048"
run="--device $device --quiet"
gate $firm train cube --pack p.h5 -o base --seed 1 $settings $run --until history
cp -r base seed-1
from="--init base/checkpoint.safetensors --from belief"
gate $firm train cube --pack p.h5 -o seed-1 --seed 1 --resume $settings $run &
gate $firm train cube --pack p.h5 -o seed-2 --seed 2 $from $settings $run &
gate $firm train cube --pack p.h5 -o seed-3 --seed 3 $from $settings $run &
wait
$firm export seed-1/model.safetensors -o one.safetensors --quiet
$firm export seed-1/model.safetensors --member seed-2/model.safetensors --member seed-3/model.safetensors -o three.safetensors --quiet

# ---- what the three expect: of what their own searches look at, and of what those of the one look at ----
imagine() { # name, flags
    $firm intervene cube --imagined --pack p.h5 --model three.safetensors --anchors "$searches" --seed 1 --device "$device" --precision fp32 \
        $settings --quiet --json "${@:2}" -o "$1.h5" | python3 -c '
import json, sys
print(json.dumps({"row": "imagined-" + sys.argv[1]} | json.load(sys.stdin), separators=(",", ":")))' "$1" | flock lock tee -a $rows
}
imagine own
imagine guided --guide one.safetensors

# ---- students from belief on, side by side, with the recorded and tried outcomes as before ----
student() { # name, seed, pack, flags
    gate $firm train cube --pack "$3.h5" -o "$1" --seed "$2" $from $settings $run --set stage.belief.sources=FISD \
        --set stage.rollout.sources=FISD "${@:4}"
}
student student 1 own &
student student-2 2 own &
student student-3 3 own &
student student-w3 1 own --set stage.rollout.weight_d=3 &
student student-guided 1 guided &
# how far the one is from the three: nothing but the reading is trained
gate $firm train cube --pack own.h5 -o follow-one --seed 1 --init seed-1/checkpoint.safetensors --from reading $settings $run &
gate $firm train cube --pack guided.h5 -o follow-one-guided --seed 1 --init seed-1/checkpoint.safetensors --from reading $settings $run &
wait
for name in follow-one student student-2 student-3 student-w3 follow-one-guided student-guided; do
    python3 -c '
import json, sys
j = json.load(open(sys.argv[1] + "/train.json"))
print(json.dumps({"row": "follow-" + sys.argv[1].removeprefix("follow-"), "seconds": j["seconds"]} | j["imagined"], separators=(",", ":")))' $name | tee -a $rows
done
$firm export student/model.safetensors --member student-2/model.safetensors --member student-3/model.safetensors -o students.safetensors --quiet

# ---- rows, side by side: outcomes do not depend on that ----
row one one.safetensors &
row three three.safetensors --set plan.ensemble_price=0 &
row three-price-1 three.safetensors --set plan.ensemble_price=1 &
for name in student student-2 student-3 student-w3 student-guided; do row $name $name/model.safetensors & done
row students students.safetensors --set plan.ensemble_price=0 &
row students-price-1 students.safetensors --set plan.ensemble_price=1 &
wait
