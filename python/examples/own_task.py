"""gymnasium's Pendulum-v1 as a task of one's own: collect, try other actions, train, control. Needs pygame and the program firm.
A goal is an angle and a speed at once: a rod that only swings passes many angles, but seldom at the right speed.

    FIRM_PROGRAM=build/firm python own_task.py runs/pendulum           # minutes; FORM=test: fewer updates
"""

import os
import sys

import gymnasium
import numpy as np

import firm

FULL = os.environ.get("FORM", "full") == "full"
SEED = 131 if FULL else 171
MODEL = dict(channel1=16, channel2=32, channel3=48, channel4=32, grid=4, grounder_hidden=128, history_width=48, history_inner=96)
MODEL.update(history_blocks=1, belief=64, fiber=32, fiber_hidden=128, hidden=192, inner=384)  # a rod needs no large model
TRAIN = dict(segments=12288 if FULL else 4096, held_out=512, frame_pool=5000, frame_pool_i=3000, frames=1024, support=1024)
UPDATES = {"tokenizer": 60, "grounder": 800 if FULL else 700, "history": 200, "rollout-f": 500 if FULL else 300, "rollout-fi": 6000 if FULL else 2000}
SETTINGS = {f"model.{k}": v for k, v in MODEL.items()}
SETTINGS.update({f"train.{k}": v for k, v in TRAIN.items()})
SETTINGS.update({f"stage.{k}.updates": v for k, v in UPDATES.items()})
SETTINGS.update({f"stage.{k}.batch": 128 for k in ("rollout-f", "rollout-fi")})


def pendulum():
    env = gymnasium.make("Pendulum-v1", render_mode="rgb_array").unwrapped
    env.screen_dim = 128  # pixels that it draws
    return env


def set_state(env, s):
    env.state = np.array(s)


def render(env):  # blue shows the rod 0.3 s ago at its present speed; the arrow of the last torque is left out
    angle, speed = env.state
    env.last_u, env.state = None, np.array([angle - 0.3 * speed, speed])
    before = env.render()
    env.state = np.array([angle, speed])
    return np.dstack([env.render()[..., :2], before[..., 1]])


folder = sys.argv[1] if len(sys.argv) > 1 else "runs/pendulum"
task = firm.tasks.from_gymnasium(
    pendulum, os.path.join(folder, "task"), name="gym_pendulum", state=lambda env: env.state, set_state=set_state, render=render,
    config={"rod": firm.tasks.angle(lambda s: s[0]), "before": firm.tasks.angle(lambda s: s[0] - 0.3 * s[1])},
    distances={"angle": ("rod", "rad", 0.15), "before": ("before", "rad", 0.15)}, image=64, controls=2,
)  # fmt: skip
data, branches, run = (os.path.join(folder, name) for name in ("episodes.h5", "branches.h5", "run"))
firm.program.check(task)
firm.program.collect(task, data, seed=SEED)
firm.program.intervene(task, data, branches, seed=SEED + 1)
firm.program.audit(task, data)
firm.train(task, data, branches, out=run, seed=SEED + 2, settings=SETTINGS, resume=os.path.isdir(run))
result = firm.evaluate(task, os.path.join(run, "model.safetensors"), arms=["firm", "random"], trials=100, unsolved=True, seed=SEED + 3)
for row in result.rows:
    print(f"{row['arm']}: {row['success_rate']:.0f} % of 100 goals ({row['ci95_low']:.0f} .. {row['ci95_high']:.0f})")
sys.exit(result.rows[0]["success_rate"] < 95)
