#!/usr/bin/env bash
# recorded.sh [BUILD] - recorded data alone against the built-in task: Push-T episodes lose every column but pictures,
# actions and states, a task file describes what is left, and both ways train with the same settings (the rules of
# docs/defaults.md), sources F. Prints held-out errors of both and how far they are apart; exit 1 beyond 10 %.
#
# Push-T holds out 2,000 of 18,685 episodes, a task file one in ten. With some numbers of episodes, 135 and 15 among them, both hold out
# the same ones: what is seen is then equal to the last digit, and predictions differ by what chi is. With other numbers
# the two train on other episodes, and are judged on others.
#
#     scripts/recorded.sh                                  about an hour on two cores
#     DEVICE=cuda scripts/recorded.sh build-cuda
#     EPISODES=15 MORE='--config smoke --set train.frame_pool=60 --set train.segments=64' scripts/recorded.sh
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build} episodes=${EPISODES:-135} device=${DEVICE:-cpu}
read -ra more <<<"${MORE:---config defaults}"
work=${WORK:-$(mktemp -d)}
[ -n "${WORK:-}" ] || trap 'rm -rf "$work"' EXIT
[ -x "$build/strip_columns" ] || cmake --build "$build" --target strip_columns firm >/dev/null
mkdir -p "$work"
[ $(((2 * episodes * 2000 + 18685) / (2 * 18685))) = $(((episodes + 5) / 10)) ] ||
    echo "recorded: of $episodes episodes the two ways hold out other ones" >&2

cat >"$work/robot.ini" <<'TASK'
[task]
name = robot
image = camera
action = motor
period_ms = 100
[action]
count = 2
[config]
block = angle pose[4]
agent_x = pose[0] / 256 - 1
agent_y = pose[1] / 256 - 1
block_x = pose[2] / 256 - 1
block_y = pose[3] / 256 - 1
[distance]
block angle = angle block, rad, 0.34906584
agent and block = norm agent_x agent_y block_x block_y, 256 px, 20
[visible]
agent_x = -1 1
agent_y = -1 1
TASK

"$build/firm" collect pusht --episodes "$episodes" --seed 11 --pixels -o "$work/f.h5" --quiet
"$build/strip_columns" "$work/f.h5" "$work/robot.h5" pixels=camera action=motor state=pose ep_len=ep_len
train() { # NAME TASK DATA; a missed gate is no failure here
    "$build/firm" train "$2" --data "$3" --sources F "${more[@]}" --device "$device" -o "$work/$1" --quiet >/dev/null || [ $? = 1 ]
}
train own pusht "$work/f.h5"
train robot "$work/robot.ini" "$work/robot.h5"
"$build/firm" eval "$work/robot.ini" --model "$work/robot/model.safetensors" --data "$work/robot.h5" --device "$device" --quiet

python3 - "$work" <<'PYTHON'
import json, sys

own, robot = (json.load(open(f"{sys.argv[1]}/{name}/train.json")) for name in ("own", "robot"))
rows = [("seen in a picture", own["grounder_error"]["units"], robot["grounder_error"]["units"])]
rows += [(f"predicted {k + 1} ahead", a, b) for k, (a, b) in enumerate(zip(own["rollout_error"], robot["rollout_error"]))]
worst = 0
print(f"\n{'held-out error, tolerances':28}{'built in':>10}{'task file':>11}{'apart':>9}")
for name, a, b in rows:
    worst = max(worst, abs(b / a - 1))
    print(f"{name:28}{a:10.4f}{b:11.4f}{100 * (b / a - 1):+8.1f} %")
print(f"training: {own['seconds']:.0f} s and {robot['seconds']:.0f} s")
sys.exit(worst > 0.1)
PYTHON
