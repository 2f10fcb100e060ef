"""Every argument of every call, given what it should not be: an exception of this package with one sentence, or it works. No crash."""

import re
import warnings

import numpy as np
import pytest

import firm

gymnasium = pytest.importorskip("gymnasium")


class Odd:
    """Raises when NumPy asks for its contents."""

    def __array__(self, *_, **__):
        raise ValueError("nothing to see")

    def __repr__(self):
        return "Odd()"


def zeros(shape, dtype):
    return np.zeros(shape, dtype)


HOSTILE = [
    None, True, -1, 0, 3, 2**63, 2**70, 1.5, float("nan"), float("inf"), 1j, "", "x", "a\0b", "/tmp/a\0b.so", b"x", (), [], [[]], [1, [2]], {}, {"agent_x": "left"},
    {"agent_x": None}, {1: 2}, {"agent_x": [1, 2]}, object(), Odd(), [Odd()], np.zeros(0), np.zeros((0, 2)), np.float64("nan"),
    np.array(["a", "b"]), np.array([object()] * 2), np.array([1j, 2]), np.array([np.datetime64("2020-01-01")] * 2),
    np.zeros(2, [("a", "f4")]), zeros((224, 224, 3), np.float32), zeros((3, 224, 224), np.uint8), zeros((224, 224, 4), np.uint8),
    zeros((2, 224, 224, 3), np.int8), zeros((224, 224, 3), ">u2"), zeros((1,) * 32, np.uint8), np.full((2, 2), np.nan), np.full(2, np.inf), np.full((2, 2), 1e300),
    np.ma.masked_array(np.zeros((2, 2)), True), np.array([np.nan, 1, 2]), np.array([-1, 2]), np.array([1.5, 2]), [2**64, 0], [-1, 0], ["a", "b"],
]  # fmt: skip


def calls():
    """Name, function of one argument; the other arguments are right."""
    model = firm.load("tworoom")
    sims = firm.Simulators("tworoom", 2, threads=1)
    sims.reset([1, 2])
    frames = sims.frames()
    plans = np.zeros((2, 5, 2))
    options = dict(candidates=8, iterations=1, horizon=1, threads=1)
    ctl, many = firm.Controller(model, **options), firm.Controllers(model, 2, **options)
    env = gymnasium.make("firm/TwoRoom-v0").unwrapped
    envs = gymnasium.make_vec("firm/TwoRoom-v0", num_envs=2, threads=1).unwrapped
    for each in (ctl, many):
        each.goal({"agent_x": 0.0})
        each.push(frames[0] if each is ctl else frames)
    env.reset(seed=1)
    envs.reset(seed=1)
    yield "load", firm.load
    yield "Model.ground", lambda x: model.ground(x, threads=1)
    yield "Model.ground threads", lambda x: model.ground(frames, threads=x if not isinstance(x, int) or x < 8 else 1)
    yield "Model.predict frames", lambda x: model.predict(x, plans, threads=1)
    yield "Model.predict actions", lambda x: model.predict(frames, x, threads=1)
    yield "Model.predict history", lambda x: model.predict(np.stack([frames, frames], 1), plans, history=x, threads=1)
    yield "Model.predict goal", lambda x: model.predict(frames, plans, goal=x, threads=1)
    for name in ("mode", "device", "precision", "solver", "seed", "deadline_ms", "candidates", "iterations", "elites", "horizon", "fan"):
        yield f"Controller {name}", lambda x, name=name: firm.Controller(model, **{**options, name: x})
    yield "Controller model", lambda x: firm.Controller(x, **options)
    yield "Controllers count", lambda x: firm.Controllers(model, x if not isinstance(x, int) or x < 8 else 1, **options)
    yield "Controller.goal", ctl.goal
    yield "Controller.push", ctl.push
    yield "Controller.push action", lambda x: ctl.push(frames[0], x)
    yield "Controller.act", ctl.act
    yield "Controller.predict", ctl.predict
    yield "Controller.reset", ctl.reset
    yield "Controller.restore", ctl.restore
    yield "Controllers.goal", many.goal
    yield "Controllers.goal index", lambda x: many.goal(frames[0], index=x)
    yield "Controllers.push", many.push
    yield "Controllers.push actions", lambda x: many.push(frames, x)
    yield "Controllers.act", many.act
    yield "Controllers.reset", many.reset
    yield "Controllers.reset seed", lambda x: many.reset(0, x)
    yield "Controllers[]", lambda x: many[x]
    yield "Simulators task", firm.Simulators
    yield "Simulators count", lambda x: firm.Simulators("tworoom", x if not isinstance(x, int) or x < 8 else 1)
    yield "Simulators threads", lambda x: firm.Simulators("tworoom", 2, threads=x if not isinstance(x, int) or x < 8 else 1)
    yield "Simulators.reset", sims.reset
    yield "Simulators.reset mask", lambda x: sims.reset([1, 2], x)
    yield "Simulators.set i", lambda x: sims.set(x, [50.0, 50.0])
    yield "Simulators.set state", lambda x: sims.set(0, x)
    yield "Simulators.set goal", lambda x: sims.set(0, None, x)
    yield "Simulators.step", sims.step
    yield "Simulators.step mask", lambda x: sims.step(np.zeros((2, 2)), x)
    yield "Simulators.frames", sims.frames
    yield "Simulators.picture", sims.picture
    yield "Environment observation", lambda x: firm.envs.Environment("tworoom", observation=x)
    yield "Environment render_mode", lambda x: firm.envs.Environment("tworoom", render_mode=x)
    yield "Environment.reset state", lambda x: env.reset(options={"state": x})
    yield "Environment.reset goal", lambda x: env.reset(options={"goal": x})
    yield "Environment.reset options", lambda x: env.reset(options=x)
    yield "Environment.step", env.step
    yield "Environments.reset seed", lambda x: envs.reset(seed=x)
    yield "Environments.reset state", lambda x: envs.reset(options={"state": x})
    yield "Environments.reset mask", lambda x: envs.reset(options={"reset_mask": x})
    yield "Environments.reset options", lambda x: envs.reset(options=x)
    yield "Environments.step", envs.step
    ctl.reset()
    ctl.goal({"agent_x": 0.0})
    ctl.push(frames[0])
    assert np.isfinite(ctl.act().action).all()  # nothing was left broken
    sims.reset([1, 2])
    assert np.array_equal(sims.frames(), frames)


def try_all(some):
    """The complaints about calls: what no exception of this package with one sentence answered."""
    bad = []
    for name, call in some:
        for value in HOSTILE:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # NumPy's, about casts and masked arrays
                    call(value)
            except firm.Error as error:
                if not re.search(r"\w.*\w", str(error)) or "\n" in str(error):
                    bad.append(f"{name}({value!r:.40}): {str(error)!r} is no sentence")
            except Exception as error:
                bad.append(f"{name}({value!r:.40}): {type(error).__name__}: {error!s:.100}")
    return bad


def test_whatever_is_given_there_is_a_sentence():
    assert try_all(calls()) == []


def test_the_extension_itself_refuses_wrong_sizes():
    """What the Python layer checks is checked again before memory is touched."""
    from firm import _core

    model, f4, u1 = firm.load("tworoom")._core, np.float32, np.uint8
    ctl = firm.Controller("tworoom", candidates=8, iterations=1, horizon=1, threads=1)._core
    sims, batch = _core.Sims("tworoom", None, 2, 1), _core.Batch(model, 1, 1)
    frame, out = np.zeros((224, 224, 3), u1), np.zeros(2, f4)
    for call in (
        lambda: ctl.push(frame[1:], None),
        lambda: ctl.push(frame, np.zeros(1, f4)),
        lambda: ctl.goal(frame[:, 1:].copy()),
        lambda: ctl.goal_config(np.zeros(3, f4), None),
        lambda: ctl.goal_config(out, np.zeros(1, u1)),
        lambda: ctl.config(np.zeros(1, f4)),
        lambda: ctl.predict(np.zeros((4, 2), f4), 1, np.zeros((2, 2), f4), None),
        lambda: ctl.predict(np.zeros((5, 2), f4), 1, np.zeros((1, 2), f4), None),
        lambda: ctl.predict(np.zeros((5, 2), f4), 1, np.zeros((2, 2), f4), np.zeros((1, 1), f4)),
        lambda: ctl.predict(np.zeros((5, 2), f4), 0, np.zeros((2, 2), f4), None),
        lambda: batch.ground(frame[1:], out),
        lambda: batch.ground(frame, np.zeros(1, f4)),
        lambda: batch.predict(frame, None, np.zeros((10, 2), f4), None, None, None, np.zeros((3, 2), f4), None, 2),
        lambda: batch.predict(np.stack([frame, frame]), None, np.zeros((5, 2), f4), None, None, None, np.zeros((2, 2), f4), None, 1),
        lambda: batch.predict(frame, None, np.zeros((5, 2), f4), frame[1:], None, None, np.zeros((2, 2), f4), None, 1),
        lambda: batch.predict(frame, None, np.zeros((5, 2), f4), None, None, None, np.zeros((2, 2), f4), np.zeros((2, 1), f4), 1),
        lambda: sims.reset(None, np.zeros(1, np.uint64)),
        lambda: sims.reset(np.zeros(1, u1), np.zeros(2, np.uint64)),
        lambda: sims.set(0, np.zeros(3), None),
        lambda: sims.set(0, None, np.zeros(1)),
        lambda: sims.step(None, np.zeros((2, 1), f4)),
        lambda: sims.look(None, frame),
        lambda: sims.look(None, success=np.zeros(1, u1)),
        lambda: sims.picture(np.zeros(2), frame[1:].copy()),
    ):
        with pytest.raises(firm.errors.UsageError, match="wrong size|no goal"):
            call()


def test_descriptions_of_tasks_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # "x" is a good name of a folder
    from test_tasks import make, of_a_cart

    def some():
        for name in ("config", "distances", "name", "image", "controls", "steps", "episodes", "anchors", "branches", "state", "set_state", "render"):
            yield f"from_gymnasium {name}", lambda x, name=name: make(tmp_path / "t", **{name: x})
        yield "from_gymnasium env", lambda x: firm.tasks.from_gymnasium(x, tmp_path / "t", **of_a_cart())
        yield "from_gymnasium folder", lambda x: make(tmp_path / "t" if x is None else x)
        yield "position", lambda x: make(tmp_path / "t", config={"x": firm.tasks.position(x)})
        yield "distance", lambda x: make(tmp_path / "t", distances={"cart": ("x", "m", x)})
        yield "coordinates", lambda x: make(tmp_path / "t", distances={"cart": (x, "m", 0.1)})
        yield "open_folder", firm.tasks.open_folder

    assert try_all(some()) == []


def test_files_of_episodes_too(file, tmp_path):
    with firm.Episodes("tworoom", file) as data:
        def some():
            yield "task", lambda x: firm.Episodes(x, file).close()
            yield "path", lambda x: firm.Episodes("tworoom", x).close()
            yield "threads", lambda x: firm.Episodes("tworoom", file, threads=x if not isinstance(x, int) or x < 8 else 1).close()
            yield "episode", lambda x: data[x]
            yield "row", lambda x: data.frames[x]
            yield "write", lambda x: firm.Episodes.write("tworoom", tmp_path / "w.h5", x)
            yield "write episode", lambda x: firm.Episodes.write("tworoom", tmp_path / "w.h5", [x])
            yield "write states", lambda x: firm.Episodes.write("tworoom", tmp_path / "w.h5", [{"states": x, "actions": np.zeros((1, 2))}])
            yield "write actions", lambda x: firm.Episodes.write("tworoom", tmp_path / "w.h5", [{"states": np.full((3, 2), 60.0), "actions": x}])

        assert try_all(some()) == []
        assert np.array_equal(data[0].states, data.states[: len(data[0])])
