"""Controllers: the loop, goals, determinism, threads, errors, leaks."""

import ctypes
import gc
import os
import signal
import sys
import threading
import time
import warnings

import numpy as np
import pytest
from conftest import small

import firm


def drive(ctl, sims, controls, goal):
    """Runs a loop on simulator 0; returns the actions and whether the goal was reached."""
    ctl.goal(goal)
    action, actions = None, []
    for _ in range(controls):
        ctl.push(sims.frames()[0], action)
        step = ctl.act()
        if step.reached:
            return actions, True
        action = step.action
        actions.append(action.copy())
        sims.step(np.tile(action, (len(sims), 1)))
    return actions, False


def test_the_agent_reaches_a_goal_in_the_other_room(model):
    sims = firm.Simulators("tworoom")
    sims.set(0, [50.0, 150.0], [170.0, 60.0])
    ctl = firm.Controller(model, mode="reach", threads=1)
    actions, reached = drive(ctl, sims, 100, sims.picture([170.0, 60.0]))
    assert reached and sims.success()[0] and len(actions) > 20


def test_a_step_has_what_it_says(model, frame, goal):
    ctl = small(model, fan=4)
    ctl.goal(goal)
    ctl.push(frame)
    step = ctl.act()
    assert step.solved and not step.late and step.nonfinite == 0 and step.iterations >= 2
    h = step.path.shape[0] - 1
    assert step.plan.shape == (5 * h, 2) and step.path.shape == (h + 1, 2) and step.fan.shape == (4, h + 1, 2)
    assert np.array_equal(step.action, step.plan[0])
    assert np.array_equal(step.path[0], ctl.config()) and np.array_equal(step.goal_config, model.ground(goal))
    expected = 112 * np.linalg.norm(ctl.config() - step.goal_config)
    assert step.distances["agent"] == pytest.approx(expected, abs=1e-2)
    path, distances = ctl.predict(step.plan, distances=True)
    np.testing.assert_allclose(path, step.path, atol=1e-5)
    assert distances[step.arrival, 0] == pytest.approx(step.distance_planned[0], abs=1e-3)
    assert 0 <= step.strange < 1 and step.solve_ms > 0
    assert small(model).goal(goal) is None


def test_a_step_keeps_its_numbers(model, frame, goal):
    ctl = small(model)
    ctl.goal(goal)
    ctl.push(frame)
    step = ctl.act()
    plan = step.plan.copy()
    for _ in range(12):
        ctl.push(frame, step.action)
        ctl.act()
    assert np.array_equal(step.plan, plan)
    step.plan[:] = 0  # the arrays are the caller's


def test_the_same_seed_gives_the_same_actions(model):
    runs = []
    for threads in (1, 3):
        sims = firm.Simulators("tworoom")
        sims.reset([5])
        ctl = firm.Controller(model, seed=9, threads=threads, candidates=32, iterations=2)
        runs.append(drive(ctl, sims, 8, sims.picture([100.0, 49.0]))[0])
    assert np.array_equal(runs[0], runs[1])
    sims.reset([5])
    other = firm.Controller(model, seed=10, threads=1, candidates=32, iterations=2)
    assert not np.array_equal(runs[0], drive(other, sims, 8, sims.picture([100.0, 49.0]))[0])


def test_goals_of_numbers_leave_the_rest_free(model, frame):
    ctl = small(model)
    ctl.goal({"agent_y": 0.25})
    ctl.push(frame)
    step = ctl.act()
    assert step.distances["agent"] == pytest.approx(112 * abs(ctl.config()[1] - 0.25), abs=1e-2)
    assert step.goal_config[0] == pytest.approx(ctl.config()[0])


def test_contract_mode_executes_the_whole_plan(model, frame, goal):
    ctl = small(model, mode="contract")
    ctl.goal(goal)
    solved = []
    action = None
    for _ in range(16):
        ctl.push(frame, action)
        step = ctl.act()
        solved.append(step.solved)
        action = step.action
    assert [i for i, s in enumerate(solved) if s] == [0, 15]


def test_a_deadline_is_kept_or_said(model, frame, goal):
    ctl = firm.Controller(model, deadline_ms=0.001, threads=1, candidates=4096, iterations=100)
    ctl.goal(goal)
    ctl.push(frame)
    assert ctl.act().late
    for bad in (0, -1, float("nan"), "soon"):
        with pytest.raises(ValueError, match="give a number above 0"):
            ctl.act(deadline_ms=bad)


def test_a_deadline_is_in_milliseconds(model, frame, goal):
    """A search of minutes ends soon after its time, whether the controller or the call names it."""
    ctl = firm.Controller(model, mode="contract", deadline_ms=40, threads=1, candidates=4096, iterations=10000)
    ctl.goal(goal)
    ctl.push(frame)
    for given, most in ((None, 4.0), (20, 4.0), (400, 8.0)):
        ctl.reset()
        ctl.goal(goal)
        ctl.push(frame)
        begin = time.perf_counter()
        step = ctl.act(given)
        took = time.perf_counter() - begin
        assert step.late and took < most  # a busy machine may take its time
        if given == 400:
            assert took > 0.2  # and this one was not given 40 ms


def test_save_and_restore_continue_with_the_same_actions(model, frame, goal):
    a, b = small(model), small(model)
    a.goal(goal)
    a.push(frame)
    first = a.act()
    b.restore(a.save())
    for ctl in (a, b):
        ctl.push(frame, first.action)
    assert np.array_equal(a.act().plan, b.act().plan)
    with pytest.raises(firm.errors.FormatError):
        b.restore(a.save()[:-1])
    with pytest.raises(ValueError, match="bytes"):
        b.restore("text")


def test_controllers_in_step_equal_single_ones(model, sims, goal):
    options = dict(candidates=16, iterations=2, horizon=3)
    many = firm.Controllers(model, 3, seed=4, **options)
    single = [firm.Controller(model, seed=4 + i, threads=1, **options) for i in range(3)]
    many.goal(np.stack([goal] * 3))
    actions = None
    for _ in range(6):
        frames = sims.frames()
        many.push(frames, actions)
        steps = many.act()
        for i, ctl in enumerate(single):
            if actions is None:
                ctl.goal(goal)
            ctl.push(frames[i], None if actions is None else actions[i])
            assert np.array_equal(ctl.act().action, steps[i].action)
        actions = steps.action
        sims.step(actions)
    assert steps.action.shape == (3, 2) and steps.reached.dtype == bool and len(steps) == 3
    many.goal({"agent_x": float(many[0].config()[0])})  # the first is there already
    steps = many.act(deadline_ms=0.001)
    assert steps.reached.tolist()[0] and not steps.reached.all() and steps.late.all()
    for name in ("action", "distance_now", "reached", "late"):
        assert np.array_equal(getattr(steps, name), np.stack([getattr(s, name) for s in steps.steps]))
    np.testing.assert_allclose(steps.strange, [s.strange for s in steps.steps], rtol=1e-6)


def test_one_of_many_is_a_controller(model, sims, goal):
    options = dict(candidates=16, iterations=2, horizon=3)
    many = firm.Controllers(model, 3, seed=4, deadline_ms=5000, **options)
    single = firm.Controller(model, seed=5, threads=1, deadline_ms=5000, **options)
    frames = sims.frames()
    many.goal(np.stack([goal] * 3))
    many.push(frames)
    single.goal(goal)
    single.push(frames[1])
    one = many[1]
    assert isinstance(one, firm.Controller) and one.deadline_ms == 5000 and one.model is model
    assert np.array_equal(one.config(), single.config()) and not np.array_equal(one.config(), many[0].config())
    plan = np.full((10, 2), 0.5)
    for a, b in zip(one.predict(plan, distances=True), single.predict(plan, distances=True)):
        assert np.array_equal(a, b)
    single.restore(one.save())
    assert np.array_equal(many.act()[1].plan, single.act().plan)
    assert np.array_equal(many[-1].config(), many[2].config()) and len(list(many)) == 3
    with pytest.raises(TypeError, match="a controller's number must be whole, not 'a'"):
        many["a"]
    with pytest.raises(firm.errors.UsageError, match="controller 2: .*goal"):
        many[2].reset()
        many[2].push(frames[2])
        many[2].act()
    held = sys.getrefcount(many._core)
    last = many[2]
    now = sys.getrefcount(many._core)
    assert now == held + 1  # one keeps all of them alive
    del many
    gc.collect()
    assert one.config().shape == last.config().shape == (2,)


def test_many_are_reset_to_their_own_seeds(model, sims, goal):
    many = firm.Controllers(model, 3, seed=4, candidates=16, iterations=2, horizon=3)

    def plans():
        many.goal(np.stack([goal] * 3))
        many.push(sims.frames())
        return [s.plan for s in many.act().steps]

    first = plans()
    many.reset()
    assert all(map(np.array_equal, first, plans()))
    many.reset(seed=5)
    moved = plans()
    assert not np.array_equal(first[1], moved[1])
    frames = np.stack([sims.frames()[0]] * 3)
    sims.frames = lambda: frames  # all see the same: what differs is their seeds
    many.reset(seed=4)
    same = plans()
    many.reset(seed=5)
    assert np.array_equal(plans()[0], same[1])
    many.reset()
    many.reset(1, seed=6)
    assert np.array_equal(plans()[1], same[2])
    many.reset()
    many.reset(1)
    assert np.array_equal(plans()[1], same[1])


def test_one_of_many_is_reset_alone(model, sims, goal):
    many = firm.Controllers(model, 3, candidates=16, iterations=1, horizon=2)
    many.goal({"agent_x": 0.1})
    many.push(sims.frames())
    many.act()
    many.reset(1)
    many.push(sims.frames(), np.zeros((3, 2)))
    with pytest.raises(firm.errors.UsageError, match="controller 1: .*goal"):
        many.act()
    many.goal(goal, index=1)
    assert len(many.act()) == 3
    for bad in (7, 3, -4):
        with pytest.raises(IndexError, match=f"no controller {bad}; there are 3, counted from 0"):
            many.goal(goal, index=bad)
    many.reset()


def test_calls_in_a_wrong_order_say_so(model, frame, goal):
    ctl = small(model)
    with pytest.raises(firm.errors.UsageError, match="goal"):
        ctl.push(frame)
        ctl.act()
    ctl.reset()
    ctl.goal(goal)
    with pytest.raises(firm.errors.UsageError, match="frame"):
        ctl.act()


@pytest.mark.parametrize(
    "options, words",
    [
        (dict(mode="fly"), "no mode 'fly'; the modes are: contract, reach"),
        (dict(device="tpu"), "no device 'tpu'"),
        (dict(device="cuda:x"), "no device 'cuda:x'"),
        (dict(precision="fp8"), "no precision 'fp8'"),
        (dict(solver="sgd"), "no solver 'sgd'"),
        (dict(threads=-1), "threads is -1; give 0"),
        (dict(seed=1.5), "seed must be a whole number"),
        (dict(horizon=100000), "horizon"),
        (dict(deadline_ms=0), "the deadline is 0 ms"),
    ],
)
def test_wrong_options_say_so(model, options, words):
    with pytest.raises(firm.Error, match=words):
        firm.Controller(model, **options)


def test_a_gpu_that_is_not_there_is_not_replaced(model):
    with pytest.raises(firm.errors.UnavailableError):
        firm.Controller(model, device="cuda")


def test_a_device_names_its_gpu():
    from firm.controller import _place

    assert [_place(d) for d in ("cpu", "cuda", "cuda:3")] == [dict(device=0, gpu=0), dict(device=1, gpu=0), dict(device=1, gpu=3)]


# ---- arrays ----


def test_wrong_frames_say_so(model, frame):
    ctl = small(model)
    for bad, kind, words in [
        (frame.astype(np.float32) / 255, TypeError, "frame must be RGB bytes .*float32"),
        (frame[:100], ValueError, r"frame must have the shape \(224, 224, 3\), but has \(100, 224, 3\)"),
        (np.moveaxis(frame, -1, 0), ValueError, "colours come last"),
        (None, TypeError, "frame must be RGB bytes"),
        ("picture", TypeError, "frame must be RGB bytes"),
        ([[1, 2], [3]], TypeError, "frame must be RGB bytes"),
    ]:
        with pytest.raises(kind, match=words):
            ctl.push(bad)
    with pytest.raises(firm.Error, match="no frame was seen"):
        ctl.config()  # nothing of that was taken


def test_wrong_actions_say_so(model, frame):
    ctl = small(model)
    ctl.push(frame)
    for bad, kind, words in [
        (np.zeros(3), ValueError, r"action must have the shape \(2\)"),
        (np.float32([0, np.nan]), firm.errors.RangeError, r"action is not finite at \(1\)"),
        (np.array([0, np.inf]), firm.errors.RangeError, "not finite"),
        (np.array([1j, 0]), TypeError, "action must hold numbers, but holds complex128"),
        (["a", "b"], TypeError, "action must hold numbers"),
    ]:
        with pytest.raises(kind, match=words):
            ctl.push(frame, bad)


def test_wrong_goals_say_so(model):
    ctl = small(model)
    with pytest.raises(ValueError, match="names 'agent_z', which tworoom does not have; it has: agent_x, agent_y"):
        ctl.goal({"agent_z": 0.0})
    with pytest.raises(ValueError, match="names nothing"):
        ctl.goal({})
    with pytest.raises(firm.errors.RangeError, match="the goal's agent_x is not finite"):
        ctl.goal({"agent_x": float("nan")})


def test_views_and_read_only_arrays_work(model, frame):
    want = model.ground(frame)
    wide = np.zeros((224, 448, 3), np.uint8)
    wide[:, ::2] = frame
    assert np.array_equal(model.ground(wide[:, ::2]), want)
    assert np.array_equal(model.ground(np.asfortranarray(frame)), want)
    locked = frame.copy()
    locked.flags.writeable = False
    assert np.array_equal(model.ground(locked), want)
    ctl = small(model)
    ctl.push(locked)
    ctl.push(frame[::-1][::-1], np.zeros((2, 2), np.float64)[:, 0])
    assert np.array_equal(ctl.config(), want)


# ---- life ----


def test_a_controller_keeps_its_model_alive(frame, goal):
    ctl = small(firm.load("tworoom"))
    gc.collect()
    ctl.goal(goal)
    ctl.push(frame)
    assert np.isfinite(ctl.act().action).all()


def in_a_child(call):
    """What the call says in a forked process, in which it has ten seconds; None if it hangs."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's, about threads
        child = os.fork()
    if child == 0:
        signal.alarm(10)
        try:
            said = repr(call())
        except BaseException as error:  # noqa: BLE001
            said = f"{type(error).__name__}: {error}"
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said or None


def test_a_forked_process_makes_its_own(model, sims, frame, goal):
    """Its copy of a handle has no threads: a call would wait for ever."""
    ctl, many = small(model), firm.Controllers(model, 2, candidates=16, iterations=1, horizon=2)
    for one in (ctl, many[0], many[1]):
        one.goal(goal)
        one.push(frame)
    want = model.ground(sims.frames())[0]
    says = "UnavailableError: this was made before the process forked, and its threads are not here; make another one"
    for call in (ctl.act, many.act, many[1].config, sims.frames, lambda: sims.step(np.zeros((3, 2)))):
        assert str(in_a_child(call)).startswith(says)
    assert in_a_child(lambda: np.array_equal(model.ground(np.stack([frame] * 3))[2], want)) == "True"
    assert in_a_child(lambda: small(model).goal(goal)) == "None"
    alone = firm.Simulators("tworoom")
    alone.reset([4])
    assert in_a_child(lambda: alone.frames().shape) == "(1, 224, 224, 3)"

    def leave():
        nonlocal ctl, many
        del ctl, many
        sims._core = None
        gc.collect()
        return "left"

    assert in_a_child(leave) == "'left'"
    assert np.isfinite(ctl.act().action).all() and len(many.act()) == 2  # here they go on


def test_threads_may_share_a_controller_and_a_model(model, frame, goal):
    ctl = small(model)
    ctl.goal(goal)
    ctl.push(frame)
    errors = []

    def work(shared):
        try:
            mine = ctl if shared else small(model)
            if not shared:
                mine.goal(goal)
                mine.push(frame)
            for _ in range(20):
                mine.push(frame, np.zeros(2))
                assert np.isfinite(mine.act().action).all()
                model.ground(frame, threads=1)
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i % 2 == 0,)) for i in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not errors


def test_threads_may_ask_one_model_different_things(model, sims):
    """Each answer is for its own question."""
    frames = sims.frames()
    want = model.ground(frames, threads=1)
    wrong = []

    def work(i):
        for _ in range(60):
            if not np.array_equal(model.ground(frames[i], threads=1), want[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


def ticks_during(call):
    """How often this thread woke up, each millisecond, while another made one call."""
    done = threading.Event()
    thread = threading.Thread(target=lambda: (call(), done.set()))
    thread.start()
    ticks = 0
    while not done.wait(0.001):
        ticks += 1
    thread.join()
    return ticks


def test_the_interpreter_runs_on_while_a_search_works(model, frame, goal):
    ctl = firm.Controller(model, mode="contract", threads=1, candidates=1000, iterations=10)
    ctl.goal(goal)
    ctl.push(frame)
    assert ticks_during(ctl.act) > 5  # none if the search kept the interpreter's lock


def test_the_interpreter_runs_on_while_something_is_made_or_looks(model, frame):
    frames = np.stack([frame] * 200)
    assert ticks_during(lambda: firm.Controllers(model, 100, candidates=8, iterations=1, horizon=1, threads=1)) > 5
    assert ticks_during(lambda: model.ground(frames, threads=1)) > 5


def resident():
    """Bytes of memory that this process has, and its threads and open files."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what was freed goes back to the system
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))


def expect_flat(some, warm, count):
    """`some(k)` for k below `count`, after `warm` of them, takes no memory that it keeps."""
    for k in range(warm):
        some(k)
    before = resident()
    for k in range(count):
        some(k)
    after = resident()
    assert after[0] - before[0] < 2 << 20 and after[1:] == before[1:], (before, after)


@pytest.mark.long
def test_ten_thousand_controllers_leave_nothing(model, frame, goal):
    """Made, used now and then, failed now and then, dropped; every tenth has threads of its own, every hundredth is many."""

    def some(k):
        ctl = firm.Controller(model, mode="contract", candidates=8, iterations=1, horizon=1, threads=2 if k % 10 == 0 else 1)
        if k % 50 == 0:
            ctl.goal(goal)
            ctl.push(frame)
            step, state = ctl.act(), ctl.save()
            ctl.restore(state)
            with pytest.raises(firm.Error):
                ctl.restore(state[:-1])
            assert len(step.plan) == 5
        if k % 100 == 0:
            firm.Controllers(model, 2, candidates=8, iterations=1, horizon=1, threads=1)[1].goal({"agent_x": 0.0})
        if k % 10 == 5:
            with pytest.raises(firm.Error):
                firm.Controller(model, horizon=100000)

    expect_flat(some, 500, 10000)


@pytest.mark.long
def test_ten_thousand_simulators_and_failures_leave_nothing(model, frame, goal):
    """And 4,000 steps, and 40 models that looked at a frame."""
    ctl = firm.Controller(model, mode="contract", candidates=8, iterations=1, horizon=1, threads=1)
    ctl.goal(goal)
    ctl.push(frame)

    def some(k):
        sims = firm.Simulators("tworoom")
        with pytest.raises(firm.Error):
            sims.set(0, [np.nan, 0])
        for _ in range(4 if k % 10 == 0 else 0):
            ctl.act()
        if k % 250 == 0:
            firm.load("tworoom").ground(frame, threads=1)

    expect_flat(some, 1000, 10000)


def test_a_few_controllers_and_simulators_leave_nothing(model):
    """The short form of the two above."""

    def some(k):
        firm.Controller(model, candidates=8, iterations=1, horizon=1, threads=2 if k % 4 == 0 else 1)
        firm.Simulators("tworoom", 2, threads=2)

    expect_flat(some, 50, 150)
