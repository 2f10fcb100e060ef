#!/usr/bin/env python3
"""Our gymnasium environments beside the reference package's, step for step, on a seed that no golden file knows.

Run `scripts/reference/parity.py [SEED]` with Python 3.11: it makes a throw-away virtual environment, installs this package and the
reference from PyPI there, and drives both through the same states and actions. TwoRoom and Push-T must be equal bit for bit,
Reacher within 1e-9, Cube, moved gently, within 1e-6. Exit status 1 and a line that begins with FAIL otherwise."""

import os
import sys

import mujoco_tasks
import pusht
import tworoom
from throwaway import REFERENCE, ROOT, load, run_inside

PACKAGES = [os.path.join(ROOT, "python"), "torch", "opencv-python-headless==5.0.0.93", *mujoco_tasks.OTHERS]


def ours(name):
    import gymnasium

    import firm  # noqa: F401

    return gymnasium.make(f"firm/{name}-v0", max_episode_steps=10**6)


def compare(name, limit, runs, goal=None):
    """runs: (start, actions, states of the reference after each). goal: one that is never reached, where reaching it ends a control."""
    import numpy as np

    env, worst, count = ours(name), 0.0, 0
    width = env.unwrapped.sims.info.state_dim
    for start, actions, states in runs:
        env.reset(seed=0, options={"state": start} if goal is None else {"state": start, "goal": goal})
        for action, state in zip(actions, states):
            info = env.step(action)[4]
            worst = max(worst, np.abs(info["state"][: len(state)] - state).max())
            count += 1
    print(f"{'FAIL' if worst > limit else 'pass'} {name}: {count} steps of {width} numbers, largest difference {worst:g}, limit {limit:g}", flush=True)
    return worst <= limit


def tworoom_runs(rng):
    env = load("two_room.env", *LOADED).TwoRoomEnv(render_mode="rgb_array")
    env.reset(seed=1)
    for start, actions in tworoom.sequences(rng):
        env._set_state(start)
        states = []
        for action in actions:
            env.step(action)
            states.append(env.agent_position.numpy().copy())
        yield start, actions, states


def pusht_runs(rng):
    import numpy as np

    env = load("pusht.env", *LOADED).PushT(render_mode="rgb_array")
    env.reset(seed=1)
    for key in (("agent", "start_position"), ("block", "start_position"), ("block", "angle")):
        space = env.variation_space[key[0]][key[1]]
        space._value = space.init_value
    for i in range(8):
        start, phase = pusht.start_state(rng, i % 4), rng.uniform(0, 2 * np.pi)
        pusht.put(env, start)
        actions, states = [], []
        for t in range(pusht.STEPS):
            actions.append(pusht.act(rng, env, i % 4, t, phase))
            env.step(actions[-1].astype(np.float64))
            angle = env.block.angle % (2 * np.pi)
            states.append(np.array([*env.agent.position, *env.block.position, angle, *env.agent.velocity]))
        yield start, actions, states


def reacher_runs(rng):
    import mujoco
    import numpy as np

    env = load("dmcontrol.reacher", *LOADED).ReacherDMControlWrapper(task="qpos_match")
    for i in range(8):
        start = np.concatenate([rng.uniform(-np.pi, np.pi, 1), rng.uniform(-2.79, 2.79, 1), rng.normal(0, 3 * (i % 3), 2)])
        actions = rng.uniform(-1, 1, (50, 2)).astype(np.float32)
        env.reset(seed=1)
        physics = env.env.physics
        mujoco.mj_resetData(physics.model.ptr, physics.data.ptr)
        env.set_state(start[:2], start[2:])
        env.env.task.target_qpos = None
        states = []
        for action in actions:
            env.step(action)
            states.append(np.concatenate([physics.data.qpos, physics.data.qvel]))
        yield start, actions, states


def cube_runs(rng):
    import mujoco
    import numpy as np

    env = load("ogbench.cube_env", *LOADED).CubeEnv(env_type="single", mode="data_collection", terminate_at_goal=False, visualize_info=False)

    def get():
        info = env.compute_ob_info()
        return np.concatenate([env.data.qpos, env.data.qvel, *(np.ravel(info["proprio/" + k]) for k in ("effector_pos", "effector_yaw", "gripper_contact"))])

    env._np_random = rng
    draw = env.variation_space.seed
    env.variation_space.seed = lambda seed=None: draw(int(rng.integers(2**31)))
    for _ in range(4):
        env.reset()
        qpos, qvel = env.data.qpos.copy(), env.data.qvel.copy()
        mujoco.mj_resetData(env.model, env.data)
        env.set_state(qpos, qvel)
        start = get()
        actions = (np.array([0.4, 0.4, 0.4, 0.4, 0.1]) * rng.uniform(-1, 1, (30, 5))).astype(np.float32)
        states = []
        for action in actions:
            env.step(action)
            states.append(get())
        yield start, actions, states


LOADED = ("two_room", "pusht", "ogbench", "dmcontrol", "dmcontrol.custom_tasks")
TASKS = {
    "TwoRoom": (0.0, tworoom_runs, None),
    "PushT": (0.0, pusht_runs, None),
    "Reacher": (1e-9, reacher_runs, [9000.0, 0.0, 0.0, 0.0]),
    "Cube": (1e-6, cube_runs, None),
}


def main(seed):
    import numpy as np

    print(f"seed {seed}, {REFERENCE}")
    good = [compare(name, limit, runs(np.random.default_rng(seed)), goal) for name, (limit, runs, goal) in TASKS.items()]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    if "--inside" in sys.argv:
        main(int(os.environ["PARITY_SEED"]))
    bare = [p for p in mujoco_tasks.pins() if p.startswith("ogbench")]
    PACKAGES += [p for p in mujoco_tasks.pins() if p not in bare and not p.startswith("gymnasium")]
    given = sys.argv[1] if len(sys.argv) > 1 else str(int.from_bytes(os.urandom(4), "big"))
    run_inside(__file__, PACKAGES, [REFERENCE, *bare], MUJOCO_GL="disable", SDL_VIDEODRIVER="dummy", PARITY_SEED=given)
