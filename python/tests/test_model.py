"""Models: names and paths, info, ground, predict."""

import copy
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from conftest import small

import firm


def test_shipped_models_are_there():
    assert firm.shipped() == ["cube", "pusht", "reacher", "tworoom"]


def test_info_names_the_task(model):
    info = model.info
    assert (info.task, info.image_size, info.action_dim, info.controls_per_macro) == ("tworoom", 224, 2, 5)
    assert info.config == ("agent_x", "agent_y")
    assert info.distances == (firm.Distance("agent", "px", 16.0),)
    assert info.parameters == 3408324


def test_a_model_loads_from_a_path(model, tmp_path):
    path = tmp_path / "copy.safetensors"
    path.write_bytes(open(model.path, "rb").read())
    assert firm.load(path).info == model.info


def test_unknown_names_and_damaged_files_say_so(model, tmp_path):
    with pytest.raises(firm.errors.MissingError, match="no shipped model 'threeroom' .*tworoom"):
        firm.load("threeroom")
    with pytest.raises(FileNotFoundError, match="none.safetensors"):
        firm.load(tmp_path / "none.safetensors")
    bad = tmp_path / "bad.safetensors"
    data = bytearray(open(model.path, "rb").read())
    data[-1000] ^= 1
    bad.write_bytes(data)
    with pytest.raises(firm.errors.FormatError, match="bad.safetensors"):
        firm.load(bad)


def test_ground_sees_where_the_agent_is(model, sims):
    configs = model.ground(sims.frames())
    assert configs.shape == (3, 2) and configs.dtype == np.float32
    assert np.abs(configs - sims.configs()).max() < 0.02  # 2 px
    assert np.array_equal(model.ground(sims.frames()[1]), configs[1])


def test_ground_does_not_depend_on_threads_or_batch(model, sims):
    frames = np.concatenate([sims.frames()] * 3)
    one = model.ground(frames, threads=1)
    assert np.array_equal(one, model.ground(frames, threads=3))
    assert np.array_equal(one[:3], one[3:6])


def test_ground_equals_the_controller(model, frame):
    for ctl in (small(model), small(Path(model.path))):
        ctl.push(frame)
        assert np.array_equal(ctl.config(), model.ground(frame))


def test_predict_equals_the_controller_one_by_one(model, sims, goal):
    rng = np.random.default_rng(3)
    frames, past = [sims.frames()], []
    for _ in range(2):
        past.append(rng.uniform(-1, 1, (3, 2)).astype(np.float32))
        sims.step(past[-1])
        frames.append(sims.frames())
    frames, past = np.stack(frames, 1), np.stack(past, 1)
    plans = rng.uniform(-1, 1, (3, 10, 2)).astype(np.float32)
    got = model.predict(frames, plans, history=past, goal=goal)
    assert got.configurations.shape == (3, 3, 2) and got.distances.shape == (3, 3, 1)
    for i in range(3):
        ctl = small(model)
        ctl.goal(goal)
        for t in range(3):
            ctl.push(frames[i, t], past[i, t - 1] if t else None)
        path, distances = ctl.predict(plans[i], distances=True)
        np.testing.assert_allclose(got.configurations[i], path, atol=1e-6)
        np.testing.assert_allclose(got.distances[i], distances, atol=1e-3)


def test_predict_foresees_the_simulator(model, sims):
    sims.set(0, [50.0, 100.0])
    frame = sims.frames()[:1]
    plan = np.tile(np.float32([0.5, 0.25]), (1, 10, 1))
    path = model.predict(frame, plan).configurations[0]
    for _ in range(10):
        sims.step(np.tile(plan[0, 0], (3, 1)))
    assert np.abs(path[-1] - sims.configs()[0]).max() * 112 < 6  # px, after 28 px of way


def test_predict_takes_goals_of_numbers(model, sims):
    plan = np.zeros((3, 5, 2))
    frames = sims.frames()
    x = model.ground(frames)[:, 0]
    free = model.predict(frames, plan, goal={"agent_x": 0.5}).distances
    np.testing.assert_allclose(free[:, 0, 0], np.abs(x - 0.5) * 112, atol=1e-2)
    assert model.predict(frames, plan).distances is None


def test_predict_takes_a_goal_for_each(model, sims):
    frames, plan = sims.frames(), np.zeros((3, 5, 2))
    goals = np.stack([sims.picture([x, 100.0]) for x in (40.0, 60.0, 180.0)])
    each = model.predict(frames, plan, goal=goals).distances
    for i in range(3):
        alone = model.predict(frames, plan, goal=goals[i]).distances
        assert np.array_equal(each[i], alone[i]) and not np.array_equal(each, alone)


def test_plans_of_any_length_follow_one_another(model, sims):
    """A longer plan begins with the shorter one's path, whichever was asked for first."""
    frames, plan = sims.frames(), np.tile(np.float32([0.3, -0.2]), (3, 20, 1))
    long = model.predict(frames, plan, threads=1).configurations
    short = model.predict(frames, plan[:, :5], threads=1).configurations
    assert long.shape == (3, 5, 2) and short.shape == (3, 2, 2)
    np.testing.assert_allclose(short, long[:, :2], atol=1e-6)
    other = firm.load(model.path)
    np.testing.assert_allclose(other.predict(frames, plan[:, :5], threads=1).configurations, short, atol=1e-6)
    np.testing.assert_allclose(other.predict(frames, plan, threads=1).configurations, long, atol=1e-6)


def test_predictions_of_many_lengths_keep_one_set_of_controllers(model, sims):
    mine, frames = firm.load(model.path), sims.frames()
    for macros in (1, 3, 2, 1):
        mine.predict(frames, np.zeros((3, 5 * macros, 2)), threads=1)
    assert {key: macros for key, (macros, _) in mine._batches.items()} == {(os.getpid(), 1): 3}


def test_a_model_is_copied_and_sent_to_other_processes(model, frame, tmp_path, monkeypatch):
    (tmp_path / "m.safetensors").write_bytes(open(model.path, "rb").read())
    monkeypatch.chdir(tmp_path)
    sent = pickle.dumps(firm.load("m.safetensors"))
    monkeypatch.chdir("/")
    for other in (pickle.loads(sent), copy.deepcopy(model)):
        assert other.info == model.info and np.array_equal(other.ground(frame), model.ground(frame))


def test_predict_says_what_is_wrong(model, sims):
    frames, plan = sims.frames(), np.zeros((3, 5, 2))
    with pytest.raises(ValueError, match="a multiple of 5"):
        model.predict(frames, np.zeros((3, 4, 2)))
    with pytest.raises(ValueError, match=r"actions must have the shape \(3, K, 2\)"):
        model.predict(frames, np.zeros((2, 5, 2)))
    with pytest.raises(ValueError, match="need history"):
        model.predict(np.stack([frames, frames], 1), plan)
    with pytest.raises(ValueError, match="sees three frames"):
        model.predict(np.stack([frames] * 4, 1), plan)
    with pytest.raises(firm.errors.RangeError, match=r"actions is not finite at \(1, 2, 0\)"):
        broken = plan.copy()
        broken[1, 2, 0] = np.nan
        model.predict(frames, broken)


@pytest.mark.parametrize("task", ["pusht", "reacher", "cube"])
def test_other_models_ground_their_pictures(task):
    from conftest import available

    sims = available(task)
    sims.reset([5, 6])
    got, want = firm.load(task).ground(sims.frames()), sims.configs()
    assert np.abs(got - want).max() < 0.15
