"""Opens a file of `firm collect tworoom --pixels` with h5py and checks the public columns."""

import sys

import h5py
import numpy as np

f = h5py.File(sys.argv[1], "r")
rows, count = len(f["step_idx"]), len(f["ep_len"])
want = {
    "action": ("f4", (rows, 2)), "proprio": ("f4", (rows, 2)), "pos_agent": ("f4", (rows, 2)),
    "pos_target": ("f4", (rows, 2)), "observation": ("f4", (rows, 10)),
    "distance_to_target": ("f8", (rows,)), "reward": ("f8", (rows,)), "render_time": ("f8", (rows,)),
    "terminated": ("?", (rows,)), "truncated": ("?", (rows,)), "step_idx": ("i8", (rows,)),
    "ep_idx": ("i4", (rows,)), "id": ("i8", (rows,)), "ep_len": ("i4", (count,)),
    "ep_offset": ("i8", (count,)), "pixels": ("u1", (rows, 224, 224, 3)),
}
assert set(f) == set(want), sorted(set(f) ^ set(want))
for name, (dtype, shape) in want.items():
    assert f[name].dtype == np.dtype(dtype) and f[name].shape == shape, (name, f[name])
    if name not in ("pixels",):
        assert f[name].chunks[0] == 1000, (name, f[name].chunks)
assert f.attrs["task"] == "tworoom" and f.attrs["seed"] == 5 and f.attrs["policy"] == "expert"
assert all(k in f.attrs for k in ("version", "physics", "renderer", "checksum", "config"))

length, offset = f["ep_len"][:], f["ep_offset"][:]
agent, target, action = f["pos_agent"][:], f["pos_target"][:], f["action"][:]
reward, end = f["reward"][:], f["terminated"][:]
assert length.sum() == rows and (offset == np.cumsum(length) - length).all()
assert (f["proprio"][:] == agent).all() and (f["id"][:] >= 0).all()
assert (f["observation"][:, :4] == np.hstack([agent, target])).all()
assert (f["observation"][0, 4:] == [112, 49, 0, 0, 0, 0]).all()
distance = np.linalg.norm(agent.astype("f8") - target, axis=1)
assert np.abs(distance - f["distance_to_target"][:]).max() < 1e-4
for e, (o, n) in enumerate(zip(offset, length)):
    here = slice(o, o + n)
    assert (f["ep_idx"][here] == e).all() and (f["step_idx"][here] == np.arange(n)).all()
    assert len(set(f["id"][here])) == 1 and (target[here] == target[o]).all()
    assert np.isnan(action[o + n - 1]).all() and np.isfinite(action[o:o + n - 1]).all()
    assert np.isnan(reward[o]) and (reward[o + 1:o + n] == 0).all()
    assert not end[o:o + n - 1].any() and end[o + n - 1] == (distance[o + n - 1] < 16)
    assert f["truncated"][o + n - 1] == (n == 101) and not f["truncated"][o:o + n - 1].any()
    # a step moves at most 5 pixels along each axis, or is thrown back out of the doorway
    assert np.abs(np.diff(agent[here], axis=0)).max() <= 25
for row in (0, rows // 2, rows - 1):  # the dot's centre is red where the agent is
    x, y = np.rint(agent[row]).astype(int)
    assert tuple(f["pixels"][row, y, x]) == (255, 0, 0)
