"""gymnasium's Pendulum-v1 as a task of one's own: collect, try other actions, train, evaluate. Needs pygame and the program firm.

    FIRM_PROGRAM=build/firm python own_task.py runs/pendulum
"""

import os
import sys

import numpy as np

import firm

EPISODES = int(os.environ.get("EPISODES", 1000))


def state(env):
    return env.state


def set_state(env, s):
    env.state = np.array(s)


def render(env):
    env.last_u = None  # the arrow of the last torque is not part of the state
    return env.render()


folder = sys.argv[1] if len(sys.argv) > 1 else "runs/pendulum"
task = firm.tasks.from_gymnasium(
    "Pendulum-v1",
    os.path.join(folder, "task"),
    name="gym_pendulum",
    state=state,
    set_state=set_state,
    render=render,
    config={"rod": firm.tasks.angle(lambda s: s[0])},
    distances={"angle": ("rod", "rad", 0.15)},
    image=64,
    episodes=EPISODES,
)
data, branches, run = (os.path.join(folder, name) for name in ("episodes.h5", "branches.h5", "run"))
firm.program.check(task)
firm.program.collect(task, data)
firm.program.intervene(task, data, branches)
firm.program.audit(task, data)
firm.train(task, data, branches, out=run, resume=os.path.isdir(run))
result = firm.evaluate(task, os.path.join(run, "model.safetensors"), arms=["firm", "random"], trials=100, unsolved=True)
for row in result.rows:
    print(f"{row['arm']}: {row['success_rate']:.0f} % of 100 goals ({row['ci95_low']:.0f} .. {row['ci95_high']:.0f})")
