"""Converters: each package's own reader sees what was there, and the way back gives the same file."""

import os

import numpy as np
import pytest

import firm


@pytest.fixture()
def data(file):
    with firm.Episodes("tworoom", file) as episodes:
        yield episodes


@pytest.fixture()
def few(data, tmp_path):
    """Two episodes of 30 rows."""
    path = tmp_path / "few.h5"
    firm.Episodes.write("tworoom", path, [{"states": e.states[:30], "actions": e.actions[:29], "reward": 0.25 * np.arange(30) + i} for i, e in enumerate(data[:2])])
    with firm.Episodes("tworoom", path) as episodes:
        yield episodes


def same(path, data, frames, lossy=False):
    """The file at `path` holds the episodes of `data`; lossy: but for what JPEG does to pictures."""
    with firm.Episodes("tworoom", path) as back:
        assert np.array_equal(back.lengths, data.lengths) and np.array_equal(back.states, data.states)
        assert np.array_equal(back.actions, data.actions, equal_nan=True) and back.hash == data.hash
        assert back.stored_frames == frames
        off = np.abs(back.frames[25:35].astype(float) - data.frames[25:35])
        assert off.mean() < 0.5 if lossy else off.max() == 0


def test_a_missing_package_says_what_to_install(data, tmp_path, monkeypatch):
    import importlib

    def missing(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(firm.errors.UnavailableError, match=r"minari is not complete here .* pip install 'firm-wm\[minari\]'"):
        firm.convert.to_minari(data, "tworoom/x-v0")
    with pytest.raises(firm.errors.UnavailableError, match=r"pip install 'firm-wm\[lerobot\]'"):
        firm.convert.from_lerobot("tworoom", tmp_path / "x.h5", "me/x")


def test_stable_worldmodel_s_layout_has_every_column_and_frame(data, tmp_path):
    path = tmp_path / "swm.h5"
    firm.convert.to_stable_worldmodel(data, path)
    same(path, data, True)
    with firm.Episodes("tworoom", path) as back:
        assert set(back.columns) - {"pixels"} == set(data.columns)
        for name, column in data.columns.items():
            assert np.array_equal(back.columns[name][:], column[:], equal_nan=True)


def test_stable_worldmodel_reads_it(few, tmp_path, monkeypatch):
    pytest.importorskip("stable_worldmodel")
    pytest.importorskip("hdf5plugin")
    from stable_worldmodel.data import HDF5Dataset

    path = tmp_path / "swm.h5"
    firm.convert.to_stable_worldmodel(few, path)
    clips = HDF5Dataset(path=path, num_steps=4, frameskip=5, keys_to_load=["pixels", "action", "pos_agent"])
    clip = clips[0]
    assert np.array_equal(clip["pixels"].permute(0, 2, 3, 1), few[0].frames[:20:5])
    np.testing.assert_array_equal(clip["pos_agent"], few[0].states[:20:5].astype(np.float32))
    np.testing.assert_array_equal(np.ravel(clip["action"]), few[0].actions[:20].ravel())


def test_stable_worldmodel_s_own_files_open(few, tmp_path):
    pytest.importorskip("stable_worldmodel")
    pytest.importorskip("hdf5plugin")
    from stable_worldmodel.data import HDF5Writer

    path = tmp_path / "theirs.h5"
    with HDF5Writer(path) as writer:
        for first, episode in zip(few.offsets, few):
            columns = {"pos_agent": episode.states.astype(np.float32), "pixels": episode.frames[:], "action": few.actions[first : first + len(episode)]}
            writer.write_episode({name: list(column) for name, column in columns.items()})
    same(path, few, True)


@pytest.mark.parametrize("frames", [False, True])
def test_minari_there_and_back(few, tmp_path, monkeypatch, frames):
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    made = firm.convert.to_minari(few, "tworoom/expert-v0", frames=frames, author="me", author_email="me@example.org", code_permalink="none", algorithm_name="expert")
    assert made.total_episodes == 2 and made.total_steps == few.rows - 2
    theirs = minari.load_dataset("tworoom/expert-v0")[1]
    assert np.array_equal(theirs.observations["state"], few[1].states) and np.array_equal(theirs.actions, few[1].actions)
    assert theirs.terminations.sum() + theirs.truncations.sum() == 1
    reward = few[1].columns["reward"][:]
    assert np.array_equal(theirs.rewards, reward[1:])
    path = tmp_path / "back.h5"
    firm.convert.from_minari("tworoom", path, "tworoom/expert-v0", frames=(lambda seen: seen["pixels"]) if frames else None)
    same(path, few, frames, lossy=frames)
    with firm.Episodes("tworoom", path) as back:
        assert np.array_equal(back[1].columns["reward"][1:], reward[1:])


def test_lerobot_there_and_back(few, tmp_path, monkeypatch):
    pytest.importorskip("lerobot")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    root = tmp_path / "lerobot"
    with pytest.raises(ValueError, match="tworoom has no clock; give fps"):
        firm.convert.to_lerobot(few, "me/tworoom", root=root)
    firm.convert.to_lerobot(few, "me/tworoom", root=root, fps=10, text="go through the door")
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    theirs = LeRobotDataset("me/tworoom", root=root)
    assert theirs.num_episodes == 2 and theirs.num_frames == few.rows and theirs.fps == 10
    item = theirs[3]
    np.testing.assert_allclose(item["observation.state"].numpy(), few.states[3].astype(np.float32))
    np.testing.assert_allclose(item["observation.image"].numpy() * 255, np.moveaxis(few.frames[3], -1, 0), atol=1e-3)
    path = tmp_path / "back.h5"
    columns = {"observation.state": "states", "action": "actions", "observation.image": "frames"}
    firm.convert.from_lerobot("tworoom", path, theirs, columns=columns)
    with firm.Episodes("tworoom", path) as back:
        assert np.array_equal(back.lengths, few.lengths) and np.array_equal(back.states, few.states)
        for ours, other in zip(back, few):
            assert np.array_equal(ours.actions, other.actions)
        assert back.stored_frames and np.array_equal(back.frames[25:35], few.frames[25:35])
    with pytest.raises(ValueError, match="no feature 'none'"):
        firm.convert.from_lerobot("tworoom", path, theirs, columns={"none": "states"})
    # recordings of a robot: a task file names LeRobot's features
    (tmp_path / "robot.ini").write_text(
        "[task]\nname = robot\nimage = observation.image\naction = action\nperiod_ms = 100\npixels = 64\n[action]\ncount = 2\nlow = -2\nhigh = 2\n"
        "[config]\nx = (observation.state[0] - 112) / 112\ny = (observation.state[1] - 112) / 112\n[distance]\nplace = norm x y, 112 px, 16\n"
    )
    task = str(tmp_path / "robot.ini")
    firm.convert.from_lerobot(task, tmp_path / "robot.h5", "me/tworoom", root=root, episodes=[0, 1])
    with firm.Episodes(task, tmp_path / "robot.h5") as robot:
        assert len(robot) == 2 and robot.frames.shape[1:] == (64, 64, 3) and os.path.getsize(tmp_path / "robot.h5") > 10000
