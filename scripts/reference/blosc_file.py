#!/usr/bin/env python3
"""Writes tests/golden/blosc-tworoom.h5: a small data set as the public tools write theirs.

Run `scripts/reference/blosc_file.py` with Python 3.11 or newer: it makes a throw-away virtual environment
and installs the pinned packages from PyPI there. The file follows the recorder that made the released
files: format "latest" with paged allocation, vector columns in chunks of 1000 rows, `pixels` in chunks of 100
rows through the Blosc filter (32001: lz4, level 5, byte shuffle), no attributes but the versions below.

The test data/reads_blosc_of_python compares every number and every pixel: in row r the state is
(50 + r, 60 + r / 2), the action (r / 100, -r / 100) (NaN in an episode's last row), and byte i of the frame is
(31 r + i // 2048) mod 256.
"""

import os
import sys

from throwaway import ROOT, run_inside

PACKAGES = ["numpy==2.4.6", "h5py==3.11.0", "hdf5plugin==4.4.0"]
FILE = os.path.join(ROOT, "tests", "golden", "blosc-tworoom.h5")
EPISODES, LENGTH, SIDE = 2, 30, 224


def write():
    import h5py
    import hdf5plugin
    import numpy as np

    rows = EPISODES * LENGTH
    r = np.arange(rows)
    step = r % LENGTH
    action = np.stack([r / 100, -r / 100], axis=1).astype("f4")
    action[step == LENGTH - 1] = np.nan
    agent = np.stack([50 + r, 60 + r / 2], axis=1).astype("f4")
    byte = np.arange(SIDE * SIDE * 3) // 2048
    pixels = ((31 * r[:, None] + byte) % 256).astype("u1").reshape(rows, SIDE, SIDE, 3)
    column = {
        "action": action, "pos_agent": agent, "proprio": agent, "pos_target": agent[:, ::-1].copy(),
        "distance_to_target": np.linalg.norm(agent - agent[:, ::-1], axis=1).astype("f8"),
        "step_idx": step.astype("i8"), "ep_idx": (r // LENGTH).astype("i4"),
        "terminated": step == LENGTH - 1, "truncated": np.zeros(rows, bool),
    }
    with h5py.File(FILE, "w", libver="latest", fs_strategy="page", fs_page_size=4096) as f:
        for name, data in column.items():
            f.create_dataset(name, data=data, maxshape=(None,) + data.shape[1:], chunks=(1000,) + data.shape[1:])
        f.create_dataset("pixels", data=pixels, maxshape=(None,) + pixels.shape[1:], chunks=(100,) + pixels.shape[1:],
                         **hdf5plugin.Blosc(cname="lz4", clevel=5, shuffle=hdf5plugin.Blosc.SHUFFLE))
        f.create_dataset("ep_len", data=np.full(EPISODES, LENGTH, "i4"))
        f.create_dataset("ep_offset", data=np.arange(EPISODES, dtype="i8") * LENGTH)
        f.attrs["made_with"] = f"numpy {np.__version__}, h5py {h5py.__version__}, HDF5 {h5py.version.hdf5_version}, " \
                               f"hdf5plugin {hdf5plugin.version}"
        print(f.attrs["made_with"])
    print(FILE, os.path.getsize(FILE), "bytes")


if __name__ == "__main__":
    write() if "--inside" in sys.argv else run_inside(__file__, PACKAGES)
