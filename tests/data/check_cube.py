"""Opens a file of `firm collect cube` with h5py: every column of the public file is there under its name,
and the columns say the same of the arm, the gripper and the cube."""

import sys

import h5py
import numpy as np

f = h5py.File(sys.argv[1], "r")
rows, count = len(f["step_idx"]), len(f["ep_len"])
want = {
    # section 5.6 of the reference: info fields, "/" written as "_"
    "proprio_joint_pos": 6, "proprio_joint_vel": 6, "proprio_effector_pos": 3, "proprio_effector_yaw": 1,
    "proprio_gripper_opening": 1, "proprio_gripper_vel": 1, "proprio_gripper_contact": 1,
    "privileged_block_0_pos": 3, "privileged_block_0_quat": 4, "privileged_block_0_yaw": 1,
    "privileged_target_task": 1, "privileged_target_block": 1, "privileged_target_block_pos": 3,
    "privileged_target_block_yaw": 1, "prev_qpos": 21, "prev_qvel": 20, "qpos": 21, "qvel": 20,
    "control": 7, "time": 1, "success": 1, "target": 28,
    # common to all tasks
    "action": 5, "observation": 28, "reward": 1, "terminated": 1, "truncated": 1, "step_idx": 1, "ep_idx": 1,
    "id": 1, "render_time": 1,
}
assert set(f) == set(want) | {"ep_len", "ep_offset"}, sorted(set(f) ^ set(want))
for name, width in want.items():
    assert f[name].shape == ((rows,) if width == 1 else (rows, width)), (name, f[name].shape)
    if name.startswith(("proprio", "prev", "q", "priv")) and name != "privileged_target_task":
        assert f[name].dtype == np.float64, (name, f[name].dtype)
c = {name: f[name][:] for name in want}
assert f.attrs["task"] == "cube" and f.attrs["policy"] == "plan"
assert (f["ep_len"][:] == 201).all() and rows == 201 * count

q, v, quat = c["qpos"], c["qvel"], c["privileged_block_0_quat"]
assert (c["proprio_joint_pos"] == q[:, :6]).all() and (c["proprio_joint_vel"] == v[:, :6]).all()
assert (c["proprio_gripper_vel"] == v[:, 6]).all()
assert np.abs(c["proprio_gripper_opening"] - np.clip(q[:, 6] / 0.8, 0, 1)).max() < 1e-15
assert (c["privileged_block_0_pos"] == q[:, 14:17]).all() and (quat == q[:, 17:21]).all()
yaw = np.arctan2(2 * (quat[:, 0] * quat[:, 3] + quat[:, 1] * quat[:, 2]),
                 1 - 2 * (quat[:, 2] ** 2 + quat[:, 3] ** 2))
assert np.abs(yaw - c["privileged_block_0_yaw"]).max() < 1e-12
assert (c["privileged_target_task"] == b"cube").all() and (c["privileged_target_block"] == 0).all()
assert (c["target"] == 0).all()
# seven proprio columns, 19 numbers, as the reference's readers join them
assert sum(want[n] for n in want if n.startswith("proprio_")) == 19

centre = np.array([0.425, 0, 0])
observation = np.column_stack([
    c["proprio_joint_pos"], c["proprio_joint_vel"], 10 * (c["proprio_effector_pos"] - centre),
    np.cos(c["proprio_effector_yaw"]), np.sin(c["proprio_effector_yaw"]), 3 * c["proprio_gripper_opening"],
    c["proprio_gripper_contact"], 10 * (c["privileged_block_0_pos"] - centre), quat, np.cos(yaw), np.sin(yaw)])
assert np.abs(observation - c["observation"]).max() < 1e-12

for o, n in zip(f["ep_offset"][:], f["ep_len"][:]):
    here, last = slice(o, o + n), o + n - 1
    # before a step: the row before; at a start there is none, and the row itself stands there
    assert (c["prev_qpos"][o + 1:o + n] == q[o:last]).all() and (c["prev_qpos"][o] == q[o]).all()
    assert (c["prev_qvel"][o + 1:o + n] == v[o:last]).all() and (c["prev_qvel"][o] == v[o]).all()
    assert np.isnan(c["action"][last]).all() and np.isfinite(c["action"][o:last]).all()
    assert np.abs(np.diff(c["time"][here]) - 0.05).max() < 1e-9
    # the target stays for the whole episode, on the table
    assert np.ptp(c["privileged_target_block_pos"][here], axis=0).max() == 0
    assert abs(c["privileged_target_block_pos"][o, 2] - 0.02) < 1e-6
    far = np.linalg.norm(c["privileged_block_0_pos"][here] - c["privileged_target_block_pos"][here], axis=1)
    assert (c["success"][o + 1:o + n] == (far[1:] <= 0.04)).all()
