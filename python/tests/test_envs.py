"""gymnasium: registration, check_env, seeds, options, vectorised environments."""

import warnings

import numpy as np
import pytest
from conftest import available

import firm

gymnasium = pytest.importorskip("gymnasium")
NAMES = {"tworoom": "firm/TwoRoom-v0", "pusht": "firm/PushT-v0", "reacher": "firm/Reacher-v0", "cube": "firm/Cube-v0"}


@pytest.mark.parametrize("task", NAMES)
def test_gymnasium_finds_nothing_to_complain_of(task):
    from gymnasium.utils.env_checker import check_env

    available(task)
    env = gymnasium.make(NAMES[task], render_mode="rgb_array", observation="both" if task == "tworoom" else "pixels")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        check_env(env.unwrapped)
    # a simulator's state has no bounds, which gymnasium finds unusual
    assert [str(w.message) for w in said if "infinity" not in str(w.message)] == []


def test_make_imports_the_package_on_the_way():
    assert gymnasium.make("firm:firm/TwoRoom-v0").unwrapped.sims.info.task == "tworoom"


def test_seeds_and_options_give_the_start_and_the_goal():
    env = gymnasium.make("firm/TwoRoom-v0", render_mode="rgb_array")
    a, first = env.reset(seed=7)
    b, again = env.reset(seed=7)
    assert np.array_equal(a, b) and np.array_equal(first["goal"], again["goal"])
    _, other = env.reset()
    assert not np.array_equal(other["state"], first["state"])
    pixels, info = env.reset(options={"state": [50.0, 100.0], "goal": [150.0, 100.0]})
    assert info["state"].tolist() == [50.0, 100.0] and info["distances"]["agent"] == pytest.approx(100.0, abs=1e-3)
    assert np.array_equal(pixels, env.render()) and np.array_equal(pixels, env.unwrapped.sims.picture([50.0, 100.0]))
    assert np.array_equal(env.unwrapped.goal_pixels(), env.unwrapped.sims.picture([150.0, 100.0]))
    with pytest.raises(ValueError, match="no option 'start'; its options are: state, goal"):
        env.reset(options={"start": [0, 0]})
    with pytest.raises(firm.errors.RangeError, match="cannot be in such a state"):
        env.reset(options={"state": [-50.0, 100.0]})


def test_an_episode_ends_at_the_goal_or_at_its_limit():
    env = gymnasium.make("firm/TwoRoom-v0")
    env.reset(options={"state": [50.0, 100.0], "goal": [75.0, 100.0]})
    ends = [env.step(np.float32([1, 0]))[1:4] for _ in range(2)]
    assert ends == [(0.0, False, False), (1.0, True, False)]  # 20 px, then 15 px away
    env.reset(options={"state": [50.0, 100.0], "goal": [150.0, 100.0]})
    ends = [env.step(np.zeros(2, np.float32))[2:4] for _ in range(100)]
    assert ends[98:] == [(False, False), (False, True)]


def test_wrong_arguments_say_so():
    with pytest.raises(ValueError, match="no observation 'sound'"):
        gymnasium.make("firm/TwoRoom-v0", observation="sound")
    with pytest.raises(ValueError, match="no render mode 'ansi'"):
        firm.envs.Environment("tworoom", render_mode="ansi")
    envs = gymnasium.make_vec("firm/TwoRoom-v0", num_envs=3)
    with pytest.raises(ValueError, match="2 seeds were given for 3"):
        envs.reset(seed=[1, 2])
    with pytest.raises(ValueError, match=r"options\['state'\] must have the shape"):
        envs.reset(options={"state": np.zeros((2, 2))})
    with pytest.raises(ValueError, match="actions must have the shape"):
        envs.step(np.zeros((2, 2)))


@pytest.mark.parametrize("task", NAMES)
def test_vectorised_environments_are_single_ones(task):
    available(task)
    envs = gymnasium.make_vec(NAMES[task], num_envs=3)
    assert type(envs.unwrapped) is firm.envs.Environments
    frames, info = envs.reset(seed=40)
    assert frames in envs.observation_space
    single = [gymnasium.make(NAMES[task]) for _ in range(3)]
    for i, env in enumerate(single):
        pixels, alone = env.reset(seed=40 + i)
        assert np.array_equal(frames[i], pixels) and np.array_equal(info["goal"][i], alone["goal"])
    rng = np.random.default_rng(2)
    for _ in range(5):
        actions = rng.uniform(-1, 1, envs.action_space.shape).astype(np.float32)
        frames, rewards, terminated, truncated, info = envs.step(actions)
        for i, env in enumerate(single):
            pixels, reward, end, _, alone = env.step(actions[i])
            assert np.array_equal(frames[i], pixels) and np.array_equal(info["state"][i], alone["state"])
            assert rewards[i] == reward and terminated[i] == end
    assert frames in envs.observation_space and rewards.dtype == np.float64


def to_the_end(mode, **more):
    """Environment 0 ends at the second step, environment 1 never; returns three steps."""
    envs = gymnasium.make_vec("firm/TwoRoom-v0", num_envs=2, autoreset_mode=mode, **more)
    envs.reset(seed=1, options={"state": [50.0, 100.0], "goal": [[75.0, 100.0], [190.0, 190.0]]})
    return [envs.step(np.float32([[1, 0]] * 2)) for _ in range(3)]


def test_next_step_autoreset():
    steps = to_the_end("NextStep")
    assert [s[2].tolist() for s in steps] == [[False, False], [True, False], [False, False]]
    assert steps[1][4]["state"][0].tolist() == [60.0, 100.0]
    assert steps[2][4]["state"][0].tolist() != [65.0, 100.0] and steps[2][1].tolist() == [0.0, 0.0]
    assert steps[2][4]["state"][1].tolist() == [65.0, 100.0]


def test_same_step_autoreset():
    for more in ({}, {"copy": False}):
        steps = to_the_end("SameStep", **more)
        last = steps[1][4]
        assert steps[1][2].tolist() == [True, False] and last["_final_obs"].tolist() == [True, False]
        assert last["final_info"]["state"][0].tolist() == [60.0, 100.0]
        assert not np.array_equal(last["state"][0], [60.0, 100.0])
        sims = firm.Simulators("tworoom")
        assert np.array_equal(last["final_obs"][0], sims.picture([60.0, 100.0]))


def test_no_autoreset_and_a_mask():
    envs = gymnasium.make_vec("firm/TwoRoom-v0", num_envs=2, autoreset_mode="Disabled")
    envs.reset(seed=1)
    _, info = envs.reset(seed=[5, 6], options={"reset_mask": [True, False]})
    single = gymnasium.make("firm/TwoRoom-v0")
    assert np.array_equal(info["state"][0], single.reset(seed=5)[1]["state"])
    assert np.array_equal(info["state"][1], single.reset(seed=2)[1]["state"])
    _, info = envs.reset(seed=np.array([7, 8]))
    assert np.array_equal(info["state"][1], single.reset(seed=8)[1]["state"])
    _, info = envs.reset(seed=[9, None])
    assert np.array_equal(info["state"][0], single.reset(seed=9)[1]["state"])
    for bad, words in (([1, 2, 3], "3 seeds were given for 2"), ([1, -1], "seed is -1"), ("x", "seed must be a whole number, or one")):
        with pytest.raises(firm.Error, match=words):
            envs.reset(seed=bad)


def test_limits_and_copies():
    envs = gymnasium.make_vec("firm/TwoRoom-v0", num_envs=2, max_episode_steps=3)
    envs.reset(seed=1)
    ends = [envs.step(np.zeros((2, 2)))[3].tolist() for _ in range(4)]
    assert ends == [[False] * 2, [False] * 2, [True] * 2, [False] * 2]
    # the end of one episode does not lengthen the other
    envs = gymnasium.make_vec("firm/TwoRoom-v0", num_envs=2, max_episode_steps=4)
    envs.reset(seed=1, options={"state": [50.0, 100.0], "goal": [[75.0, 100.0], [190.0, 190.0]]})
    steps = [envs.step(np.float32([[1, 0]] * 2)) for _ in range(4)]
    assert [s[2].tolist() for s in steps[1:3]] == [[True, False], [False, False]]
    assert [s[3].tolist() for s in steps] == [[False, False]] * 3 + [[False, True]]
    for copy in (True, False):
        envs = gymnasium.make_vec("firm/TwoRoom-v0", num_envs=2, copy=copy)
        first, _ = envs.reset(seed=1)
        second = envs.step(np.ones((2, 2)))[0]
        assert (first is second) == (not copy)


def test_a_window_shows_the_pictures(monkeypatch):
    """gymnasium makes one of any rgb_array."""
    pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    with pytest.warns(UserWarning, match="human"):
        env = gymnasium.make("firm/TwoRoom-v0", render_mode="human")
    env.reset(seed=1)
    env.step(np.zeros(2, np.float32))
    assert env.render_mode == "human" and env.unwrapped.render_mode == "rgb_array"
    env.close()


@pytest.mark.long
def test_the_controllers_drive_the_environments():
    """The README's loop, for four environments at once."""
    envs = gymnasium.make_vec("firm/TwoRoom-v0", num_envs=4, autoreset_mode="Disabled")
    frames, _ = envs.reset(seed=3)
    ctls = firm.Controllers("tworoom", 4, candidates=64, iterations=3)
    ctls.goal(envs.unwrapped.goal_pixels())
    actions, solved = None, np.zeros(4, bool)
    for _ in range(100):
        ctls.push(frames, actions)
        actions = ctls.act().action
        frames, _, terminated, _, _ = envs.step(actions)
        solved |= terminated
        if solved.all():
            break
    assert solved.all()
