#!/usr/bin/env python3
"""Writes tests/golden/reacher.txt and tests/golden/cube.txt from the reference package's own environments.

Run `scripts/reference/mujoco_tasks.py` with Python 3.11: it makes a throw-away virtual environment, installs
the versions pinned in scripts/mujoco.txt and stable-worldmodel there, and drives swm/ReacherDMControl-v0
and swm/OGBCube-v0 through action sequences: random ones, too large ones, and for Cube the plan oracle's own
grasps, lifts and releases. The tests env/reacher_parity and env/cube_parity run the same actions.

Each sequence starts from a clean simulation (mj_resetData) at a recorded state, as our state setting does.

File format, one record a line, numbers float64 bits in hexadecimal (actions: float32):
    start STATE                  a sequence begins
    run ACTION STATE SPREAD      free run: the next control, and the state after it
    act ACTION                   free run: the next control, its state not recorded
    one STATE ACTION STATE SPREAD  one control from a clean simulation at the first state
    pass STATE GOAL ACTION STATE Reacher: one control with a goal, which may end it half-way
    numbers NAME VALUES          Cube: some of the compiled model's numbers
    plan VIEW DRAWS N NOISE PLAN Cube: the plan oracle's chance and the plan it made
    markov VIEW FINAL ACTION     Cube: the Markov oracle's action, before noise
STATE of Cube ends with effector position, effector yaw and gripper contact. SPREAD (Cube only) is how far the
reference is from itself when its inverse kinematics solve the same 6 x 6 system by another routine, that is,
with other last bits: stiff contacts of the gripper's linkage make some violent motions chaotic, and there no two
implementations can agree.
"""

import os
import re
import struct
import sys
import types

from throwaway import REFERENCE, ROOT, load, run_inside

GOLDEN = os.path.join(ROOT, "tests", "golden")
# of the reference package's own needs, what its two environments import
OTHERS = ["numpy==2.4.6", "scipy==1.17.1", "gymnasium==1.4.0", "loguru==0.7.3", "lxml==6.1.3", "pygame==2.6.1",
          "pymunk==7.3.1", "shapely==2.2.0"]
STEPS = 50


def pins():
    with open(os.path.join(ROOT, "scripts", "mujoco.txt")) as f:
        return re.findall(r"^(\w+==[\d.]+)", f.read(), re.M)


def run_in_venv():
    bare = [p for p in pins() if p.startswith("ogbench")]
    run_inside(__file__, OTHERS + [p for p in pins() if p not in bare], [REFERENCE] + bare, MUJOCO_GL="disable")


def environment(name):
    return load(name, "ogbench", "dmcontrol", "dmcontrol.custom_tasks")


def words(values, kind="d"):
    import numpy as np

    size = {"d": np.float64, "f": np.float32}[kind]
    return " ".join(struct.pack(">" + kind, v).hex() for v in np.asarray(values, size).ravel())


# ---- Reacher -------------------------------------------------------------------------------------


def reacher(lines):
    import mujoco
    import numpy as np

    env = environment("dmcontrol.reacher").ReacherDMControlWrapper(task="qpos_match")
    rng = np.random.default_rng(20240611)

    def put(state, goal=None):
        env.reset(seed=1)
        physics = env.env.physics
        mujoco.mj_resetData(physics.model.ptr, physics.data.ptr)
        env.set_state(np.array(state[:2]), np.array(state[2:]))
        env.env.task.target_qpos = None if goal is None else np.array(goal)

    def get():
        return np.concatenate([env.env.physics.data.qpos, env.env.physics.data.qvel])

    for i in range(24):
        # from rest, in motion, and near or beyond the wrist's soft limit; gentle, normal and too strong
        start = np.concatenate([rng.uniform(-np.pi, np.pi, 1), rng.uniform(-2.79, 2.79, 1), rng.normal(0, 3 * (i % 3), 2)])
        if i % 4 == 3:
            start[1] = np.sign(start[1]) * rng.uniform(2.7, 2.85)
        scale = (0.3, 1.0, 1.0, 2.5)[i % 4]
        actions = rng.uniform(-scale, scale, (STEPS, 2)).astype(np.float32)
        put(start)
        lines.append("start " + words(start))
        states = [get()]
        for action in actions:
            env.step(action)
            states.append(get())
            lines.append(f"run {words(action, 'f')} {words(states[-1])}")
        for k in range(0, STEPS, 5):
            put(states[k])
            env.step(actions[k])
            lines.append(f"one {words(states[k])} {words(actions[k], 'f')} {words(get())}")
        for k in range(3, STEPS, 12):  # a goal somewhere on the way of this very control
            goal = states[k][:2] + rng.uniform(0, 1) * (states[k + 1][:2] - states[k][:2]) + rng.uniform(-0.04, 0.04, 2)
            put(states[k], goal)
            env.step(actions[k])
            lines.append(f"pass {words(states[k])} {words(goal)} {words(actions[k], 'f')} {words(get())}")


# ---- Cube ----------------------------------------------------------------------------------------


class Chance:
    """Stands in for numpy.random inside an oracle and remembers what it drew."""

    def __init__(self, rng):
        self.rng, self.drawn = rng, []

    def uniform(self, low, high):
        import numpy as np

        value = self.rng.uniform(low, high)
        self.drawn += list(np.ravel(value))
        return value

    def normal(self, mean, deviation, size):
        value = self.rng.normal(mean, deviation, size=size)
        self.drawn.append(value)
        return value


def view(info):
    import numpy as np

    return np.concatenate([np.ravel(info[k]) for k in (
        "proprio/effector_pos", "proprio/effector_yaw", "proprio/gripper_opening", "proprio/gripper_contact",
        "privileged/block_0_pos", "privileged/block_0_yaw", "privileged/target_block_pos",
        "privileged/target_block_yaw", "time")])


def cube_env():
    env = environment("ogbench.cube_env").CubeEnv(env_type="single", mode="data_collection", terminate_at_goal=False,
                                                  visualize_info=False)
    env.reset()
    return env


def replace_random(module, chance):
    """Gives a module a numpy whose random numbers come from `chance`."""
    import numpy as np

    stand_in = types.ModuleType("numpy")
    stand_in.__dict__.update(np.__dict__)
    stand_in.random = chance
    module.np = stand_in


def episode(env, oracle, rng, steps, on_info=None):
    """Follows an oracle as the collector does; yields (qpos, qvel, action taken there)."""
    import numpy as np

    _, info = env.reset()
    oracle.reset(None, info)
    rows = []
    for _ in range(steps):
        if on_info:
            on_info(info)
        action = np.clip(np.array(oracle.select_action(None, info)), -1, 1).astype(np.float32)
        if oracle.done:
            oracle.reset(*env.set_new_target())
        rows.append((env.data.qpos.copy(), env.data.qvel.copy(), action))
        _, _, _, _, info = env.step(action)
    return rows


def cube(lines):
    import mujoco
    import numpy as np
    from ogbench.manipspace.oracles.markov import cube_markov
    from ogbench.manipspace.oracles.plan import cube_plan, plan_oracle

    env = cube_env()
    rng = np.random.default_rng(20240612)
    env._np_random = rng
    # every reset draws what varies between episodes with a seed of its own, which the package leaves to chance
    draw = env.variation_space.seed
    env.variation_space.seed = lambda seed=None: draw(int(rng.integers(2**31)))
    chance = Chance(rng)
    for module in (cube_plan, plan_oracle, cube_markov):
        replace_random(module, chance)

    model = env.model
    for name in ("body_mass", "body_inertia", "body_ipos", "dof_armature", "actuator_gainprm", "actuator_biasprm",
                 "geom_friction", "geom_solref", "geom_pos", "cam_pos", "cam_quat"):
        values = np.ravel(getattr(model, name))
        # sums tell a difference as well as the numbers do, and are shorter
        weights = np.arange(1, len(values) + 1)
        lines.append(f"numbers {name} {words([len(values), values.sum(), (values * weights).sum()])}")

    def put(qpos, qvel):
        mujoco.mj_resetData(env.model, env.data)
        env.set_state(qpos, qvel)

    def get():
        info = env.compute_ob_info()
        return np.concatenate([env.data.qpos, env.data.qvel, info["proprio/effector_pos"], info["proprio/effector_yaw"],
                               info["proprio/gripper_contact"]])

    plain_solve = env._ik._solve

    def other_solve():
        ik = env._ik
        h = ik._jac @ ik._jac.T + ik._damping
        return ik._jac.T @ (np.linalg.inv(h) @ ik._err.ravel())

    def follow(qpos, qvel, actions, solve):
        """States after every action, from a clean simulation; the first is the start."""
        env._ik._solve = solve
        put(qpos, qvel)
        states = [get()]
        for action in actions:
            env.step(action)
            states.append(get())
        env._ik._solve = plain_solve
        return states

    def both(qpos, qvel, actions):
        states, others = (follow(qpos, qvel, actions, s) for s in (plain_solve, other_solve))
        return states, [np.abs(a - b).max() for a, b in zip(states, others)]

    starts = []
    for i in range(6):  # approach, grasp and lift, carry, put down and leave
        rows = episode(env, cube_plan.CubePlanOracle(env=env, noise=0.1, noise_smoothing=0.5), rng, 200)
        for t in (0, 35, 70, 120)[: 4 if i < 5 else 2]:
            starts.append((rows[t][0], rows[t][1], np.array([r[2] for r in rows[t:t + STEPS]])))
    for i in range(6):  # random actions from where an episode begins or a cube is held: gentle, then violent
        base = starts[4 * (i % 3)] if i % 2 else starts[4 * (i % 3) + 1]
        scale = np.array([0.4, 0.4, 0.4, 0.4, 0.1]) if i < 4 else np.array([1, 1, 1, 1, 1]) * (1.0, 3.0)[i % 2]
        starts.append((base[0], base[1], (scale * rng.uniform(-1, 1, (STEPS, 5))).astype(np.float32)))
    for qpos, qvel, actions in starts:
        states, spread = both(qpos, qvel, actions)
        lines.append("start " + words(states[0]))
        for k, action in enumerate(actions):
            lines.append(f"run {words(action, 'f')} {words(states[k + 1])} {words([spread[k + 1]])}" if k % 5 == 4
                         else f"act {words(action, 'f')}")
        for k in range(0, STEPS, 10):
            after, differ = both(states[k][:21], states[k][21:41], actions[k:k + 1])
            lines.append(f"one {words(states[k])} {words(actions[k], 'f')} {words(after[1])} {words([differ[1]])}")

    for _ in range(3):
        _, info = env.reset()
        for _ in range(rng.integers(0, 12)):
            _, _, _, _, info = env.step(rng.uniform(-1, 1, 5).astype(np.float32))
        oracle = cube_plan.CubePlanOracle(env=env, noise=0.1, noise_smoothing=0.5)
        chance.drawn = []
        oracle.reset(None, info)
        noise = chance.drawn.pop()
        lines.append(f"plan {words(view(info))} {words(chance.drawn)} {len(noise)} {words(noise)} {words(oracle._plan)}")

    for _ in range(2):
        oracle = cube_markov.CubeMarkovOracle(env=env, min_norm=0.4)
        seen = []
        rows = episode(env, oracle, rng, 150, lambda info: seen.append((view(info), oracle._final_pos.copy(), oracle._final_yaw)))
        for (v, final, yaw), (_, _, action) in list(zip(seen, rows))[::3]:
            lines.append(f"markov {words(v)} {words([*final, yaw])} {words(action, 'f')}")


def main():
    from importlib.metadata import version

    names = ("mujoco", "dm_control", "ogbench", "stable-worldmodel", "numpy", "scipy", "gymnasium")
    versions = " ".join(f"{n} {version(n)}" for n in names)
    for task, make in (("reacher", reacher), ("cube", cube)):
        lines = [f"# {task}: the reference package's trajectories; made by scripts/reference/mujoco_tasks.py", "# " + versions]
        make(lines)
        path = os.path.join(GOLDEN, task + ".txt")
        with open(path, "w") as out:
            out.write("\n".join(lines) + "\n")
        print(f"{path}: {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main() if "--inside" in sys.argv else run_in_venv()
