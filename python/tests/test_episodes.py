"""Episode files: slices, frames on demand, writing, files that are refused. They need the program."""

import os

import numpy as np
import pytest

import firm


@pytest.fixture()
def data(file):
    with firm.Episodes("tworoom", file) as episodes:
        yield episodes


def test_slices_are_arrays(data):
    assert len(data) == 5 and data.rows == data.lengths.sum() and data.config == ("agent_x", "agent_y")
    assert data.states.shape == (data.rows, 2) and data.states.dtype == np.float64 and not data.states.flags.writeable
    reward = data.columns["reward"]
    whole = np.asarray(reward)
    for rows in (slice(None), slice(3, 9), slice(9, 3, -2), slice(-5, None), slice(7, 7), slice(1, 60, 7), slice(None, None, -1)):
        assert np.array_equal(reward[rows], whole[rows], equal_nan=True)
    assert np.array_equal(data.columns["step_idx"][-1], data.lengths[-1] - 1) and data.columns["terminated"].dtype == bool
    for i, episode in enumerate(data):
        n = len(episode)
        assert episode.states.shape == (n, 2) and episode.actions.shape == (n - 1, 2) and n == data.lengths[i]
        assert np.array_equal(episode.columns["ep_idx"][:], np.full(n, i))
        assert np.isnan(data.actions[data.offsets[i] + n - 1]).all() and np.isfinite(episode.actions).all()
    assert np.array_equal(data[-1].states, data[4].states) and len(data[1:3]) == 2
    np.testing.assert_allclose(data[0].configs[:], data[0].states / 112 - 1, atol=1e-6)


def test_frames_are_drawn_when_they_are_asked_for(data):
    sims = firm.Simulators("tworoom")
    episode = data[2]
    assert not data.stored_frames and episode.frames.shape == (len(episode), 224, 224, 3)
    assert np.array_equal(episode.frames[4], sims.picture(episode.states[4]))
    some = episode.frames[1:4]
    assert np.array_equal(some[2], sims.picture(episode.states[3])) and not np.array_equal(some[0], some[2])


def test_wrong_places_say_so(data):
    for bad in (data.rows, -data.rows - 1):
        with pytest.raises(IndexError, match=f"there is no row {bad}; there are {data.rows}, counted from 0"):
            data.frames[bad]
    with pytest.raises(IndexError, match="there is no episode 5; there are 5"):
        data[5]
    with pytest.raises(ValueError, match="takes a row or a slice"):
        data.frames[[1, 2]]
    data.close()
    with pytest.raises(ValueError, match="f.h5 is closed"):
        data.frames[0]
    data.close()


def test_an_interrupted_read_closes_the_file(file, monkeypatch):
    """What is left of an answer must not be taken for the next one."""
    data = firm.Episodes("tworoom", file)
    def interrupted(self, request, out):
        self._child.stdin.write(request)
        self._child.stdin.flush()
        self._child.stdout.readline()  # its bytes follow
        raise KeyboardInterrupt

    monkeypatch.setattr(firm.Episodes, "_exchange", interrupted)
    with pytest.raises(KeyboardInterrupt):
        data.frames[0]
    monkeypatch.undo()
    with pytest.raises(ValueError, match="is closed"):
        data.frames[0]


def test_what_is_written_comes_back(data, tmp_path):
    path = tmp_path / "w.h5"
    mine = [{"states": e.states, "actions": e.actions, "frames": e.frames, "reward": e.columns["reward"], "seen": np.arange(len(e)) % 2 == 0} for e in data]
    assert firm.Episodes.write("tworoom", path, mine)["rows"] == data.rows
    with firm.Episodes("tworoom", path) as back:
        assert back.hash == data.hash and np.array_equal(back.states, data.states)
        assert np.array_equal(back.actions, data.actions, equal_nan=True) and np.array_equal(back.lengths, data.lengths)
        assert back.stored_frames and np.array_equal(back.frames[90:110], data.frames[90:110])
        assert np.array_equal(back.columns["reward"][:], data.columns["reward"][:], equal_nan=True)
        assert back.columns["seen"].dtype == bool and np.array_equal(back[1].columns["seen"][:4], [True, False, True, False])


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda e: e.update(states=e["states"] * np.nan), "'pos_agent' of .*w.h5 is not finite in episode 0, row 0"),
        (lambda e: e.update(states=e["states"] - 500), "the state of .*w.h5 in episode 0, row 0, cannot occur in tworoom"),
        (lambda e: e.update(states=e["states"][:, :1]), "must be f8 with the 2 numbers of the task's state"),
        (lambda e: e.update(actions=e["actions"][:-1]), r"'actions' of episode 0 has the shape \(7, 2\)"),
        (lambda e: e.update(actions=e["actions"][:, :1]), "w.h5"),
        (lambda e: e.pop("states"), "has no column|not a data set"),
        (lambda e: e.update(ep_len=np.zeros(9)), "'ep_len' .* a new name"),
        (lambda e: e.update({"a b": np.zeros(9)}), "must be NAME TYPE"),
        (lambda e: e.update({"a/b": np.zeros(9)}), "a new name without /"),
        (lambda e: e.update(frames=np.zeros((9, 8, 8, 3), np.uint8)), "'pixels' of .*w.h5 does not have 9 frames of 224 x 224 x 3"),
        (lambda e: e.update(frames=np.zeros((9, 224, 224, 3))), "frames must be RGB bytes"),
        (lambda e: e.update(words=np.array(["a"] * 9)), "which is no number"),
        (lambda e: e.clear(), "episode 0 has no arrays"),
    ],
)
def test_what_cannot_be_is_not_written(file, tmp_path, change, words):
    episode = {"states": np.full((9, 2), 60.0), "actions": np.zeros((8, 2))}
    change(episode)
    with pytest.raises(firm.Error, match=words):
        firm.Episodes.write("tworoom", tmp_path / "w.h5", [episode])
    assert os.listdir(tmp_path) == []


def test_episodes_must_be_alike(file, tmp_path):
    one = {"states": np.full((9, 2), 60.0), "actions": np.zeros((8, 2))}
    for other, words in (({**one, "more": np.zeros(9)}, "episode 1 has 'more'"), ({"states": one["states"]}, "episode 1 has no 'actions'")):
        with pytest.raises(ValueError, match=words):
            firm.Episodes.write("tworoom", tmp_path / "w.h5", [one, other])
    with pytest.raises(ValueError, match="no episodes to write"):
        firm.Episodes.write("tworoom", tmp_path / "w.h5", [])
    assert os.listdir(tmp_path) == []


def test_hostile_files_are_refused_with_the_library_s_sentence(file, tmp_path):
    whole = file.read_bytes()
    path = tmp_path / "bad.h5"
    for content, words in ((b"no HDF5", "is not an HDF5 file"), (whole[: len(whole) // 2], "cut short or damaged"), (b"", "bad.h5")):
        path.write_bytes(content)
        with pytest.raises(firm.Error, match=f"firm rows: .*{words}"):
            firm.Episodes("tworoom", path)
    with pytest.raises(firm.Error, match="none.h5 does not exist"):
        firm.Episodes("tworoom", tmp_path / "none.h5")
    with pytest.raises(firm.Error, match="looks like a data set of 'tworoom', not of 'pusht'"):
        firm.Episodes("pusht", file)
    with firm.Episodes("tworoom", file) as data:
        changed = data.states.tobytes()[:64]
    at = whole.find(np.frombuffer(changed, np.float64).astype(np.float32).tobytes()[:16])
    assert at > 0
    path.write_bytes(whole[:at] + b"\1" + whole[at + 1 :])
    with pytest.raises(firm.Error, match="does not match its checksum"):
        firm.Episodes("tworoom", path)


def test_flipped_bytes_never_end_this_process(file, tmp_path):
    """A file whose structure is damaged anywhere is opened or refused; its columns are read or refused."""
    whole, path = file.read_bytes(), tmp_path / "bad.h5"
    rng = np.random.default_rng(1)
    for _ in range(6):
        bad = bytearray(whole)
        for at in rng.integers(0, 4096, 8):
            bad[at] ^= int(rng.integers(1, 256))
        path.write_bytes(bad)
        try:
            with firm.Episodes("tworoom", path) as data:
                for column in data.columns.values():
                    column[:2]
        except firm.Error as error:
            assert "bad.h5" in str(error)


def test_a_recording_is_written_by_its_own_names(file, tmp_path):
    """A task file names the columns; the file that is written trains and opens."""
    (tmp_path / "robot.ini").write_text(
        "[task]\nname = robot\nimage = camera\naction = motor\nperiod_ms = 50\npixels = 64\n[action]\ncount = 1\nlow = -1\nhigh = 1\n"
        "[config]\nx = qpos[0]\n[distance]\nplace = norm x, 1 m, 0.05\n"
    )
    task, path = str(tmp_path / "robot.ini"), tmp_path / "robot.h5"
    rng = np.random.default_rng(2)

    def episode(n):
        return {"camera": rng.integers(0, 255, (n, 32, 32, 3)).astype(np.uint8), "motor": rng.uniform(-1, 1, (n, 1)), "qpos": rng.uniform(-1, 1, (n, 2))}

    made = [episode(30), episode(40)]
    assert firm.Episodes.write(task, path, made)["episodes"] == 2
    with firm.Episodes(task, path) as data:
        assert data.frames.shape == (70, 64, 64, 3) and data.config == ("x",)
        assert np.array_equal(data[1].columns["camera"][3], made[1]["camera"][3])
        np.testing.assert_allclose(data[0].states[:, 0], made[0]["qpos"][:, 0])
    made[1]["motor"][5] = 7
    with pytest.raises(firm.Error, match="'motor' of .*other.h5 is 7 in episode 1, row 5"):
        firm.Episodes.write(task, tmp_path / "other.h5", made)
    assert not (tmp_path / "other.h5").exists()
