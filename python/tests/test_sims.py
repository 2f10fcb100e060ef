"""Simulators: states and pictures of the reference package, determinism, errors."""

import os
import shutil
import struct
import subprocess
import zipfile

import numpy as np
import pytest
from conftest import available

import firm

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def golden(name):
    """Words of the lines of a golden file, made from the reference package by scripts/reference."""
    with open(os.path.join(ROOT, "tests", "golden", name + ".txt")) as file:
        for line in file:
            if not line.startswith("#"):
                yield line.split()


def number(text):
    return struct.unpack(">f" if len(text) == 8 else ">d", bytes.fromhex(text))[0]


def test_tworoom_is_the_reference_bit_for_bit():
    sims = firm.Simulators("tworoom")
    steps, lines = 0, golden("tworoom")
    for words in lines:
        if words[0] == "sequence":
            sims.set(0, [number(w) for w in words[1:]])
        elif words[0] == "frame":
            break
        else:
            sims.step([[number(w) for w in words[:2]]])
            assert sims.states()[0].tolist() == [number(w) for w in words[2:]]
            steps += 1
    assert steps == 24 * 60


def test_tworoom_draws_the_reference_picture():
    sims, place, pixels, compared = firm.Simulators("tworoom"), None, [], 0
    for words in golden("tworoom"):
        if words[0] == "frame":
            place, pixels = [number(w) for w in words[1:]], []
        elif place is not None and words[0] == "end":
            want = np.array(pixels, np.int16).reshape(224, 224, 2)
            got = sims.picture(place).astype(np.int16)
            assert np.abs(got[..., 0] - want[..., 0]).max() <= 1 and np.abs(got[..., 1] - want[..., 1]).max() <= 1
            assert np.array_equal(got[..., 1], got[..., 2])
            compared += 1
        elif place is not None:
            for token in words:
                level, _, count = token.partition("*")
                pixels += [(int(level[:2], 16), int(level[2:], 16))] * int(count or 1)
    assert compared == 4


def test_pusht_is_the_reference_bit_for_bit():
    sims = available("pusht")
    compared, started = 0, False
    for words in golden("pusht"):
        if words[0] == "sequence":
            sims.set(0, [number(w) for w in words[1:8]])
            started = True
        elif started and len(words) in (2, 9) and len(words[0]) == 8:
            sims.step([[number(w) for w in words[:2]]] * 2, mask=[1, 0])
            if len(words) == 9:
                assert sims.states()[0].tolist() == [number(w) for w in words[2:]]
                compared += 1
        elif words[0] not in ("frame", "end"):
            started = False
    assert compared > 100


def test_reacher_is_the_reference():
    sims = available("reacher")
    compared = 0
    for words in golden("reacher"):
        if words[0] == "start":
            sims.set(0, [number(w) for w in words[1:5]], [9000.0, 0.0, 0.0, 0.0])
        elif words[0] == "run":
            sims.step([[number(w) for w in words[1:3]]] * 2, mask=[1, 0])
            np.testing.assert_allclose(sims.states()[0][:4], [number(w) for w in words[3:7]], atol=1e-9)
            compared += 1
    assert compared > 50


@pytest.mark.parametrize("task", ["tworoom", "pusht", "reacher", "cube"])
def test_the_same_seed_gives_the_same_bits_for_any_number_of_threads(task):
    available(task)
    runs = []
    for threads, count in ((1, 4), (3, 4), (1, 2)):
        sims = firm.Simulators(task, count, threads=threads)
        sims.reset(np.arange(count) + 20)
        rng = np.random.default_rng(1)
        for _ in range(5):
            sims.step(rng.uniform(-1, 1, (4, sims.info.action_dim))[:count])
        runs.append((sims.states(), sims.goals(), sims.frames()))
    for a, b in zip(runs[0], runs[1]):
        assert np.array_equal(a, b)
    assert np.array_equal(runs[0][1][:2], runs[2][1])
    assert not np.array_equal(runs[0][0][0], runs[0][0][1])


def test_a_seed_means_the_same_start_and_goal_for_ever():
    sims = firm.Simulators("tworoom", 2)
    sims.reset([11, 2**40 + 1])
    assert sims.states().tolist() == [[160.66981506347656, 146.8267059326172], [158.01791381835938, 148.31362915039062]]
    assert sims.goals().tolist() == [[66.80731201171875, 45.83884048461914], [38.46535110473633, 92.71595764160156]]


@pytest.mark.parametrize("task", ["tworoom", "pusht", "reacher", "cube"])
def test_a_drawn_start_does_not_solve_its_goal(task):
    sims = available(task)
    for seed in range(0, 20, 2):
        sims.reset([seed, seed + 1])
        assert not sims.success().any()
        assert (sims.distances() >= 0).all()


def test_success_is_a_distance_below_the_tolerance(sims):
    sims.set(0, [50.0, 100.0], [60.0, 112.0])  # 15.6 px
    sims.set(1, [50.0, 100.0], [61.0, 112.0])  # 16.3 px
    assert sims.success().tolist()[:2] == [True, False]
    np.testing.assert_allclose(sims.distances()[:2, 0], [15.6205, 16.2788], atol=1e-3)


def test_a_mask_leaves_simulators_alone(sims):
    before = sims.states()
    sims.step(np.ones((3, 2)), mask=[0, 1, 0])
    moved = (sims.states() != before).any(axis=1)
    assert moved.tolist() == [False, True, False]
    sims.reset([1, 2, 3], mask=[0, 0, 1])
    assert np.array_equal(sims.states()[0], before[0])
    info = sims.info
    assert (info.action_low, info.action_high) == (-1.0, 1.0)


def test_pictures_are_drawn_into_the_callers_array(sims):
    out = np.zeros((3, 224, 224, 3), np.uint8)
    assert sims.frames(out) is out and np.array_equal(out, sims.frames())
    locked = out.copy()
    locked.flags.writeable = False
    for bad in (locked, out[:, ::-1], out[:2], out.astype(np.int8), [1]):
        with pytest.raises(ValueError, match="out must be"):
            sims.frames(bad)


def test_wrong_arguments_say_so(sims):
    before = sims.states()
    cases = [
        (lambda: firm.Simulators("threeroom"), "no task 'threeroom'; the tasks are: tworoom, pusht"),
        (lambda: firm.Simulators("tworoom", 0), "count is 0"),
        (lambda: firm.Simulators("tworoom", 2.5), "count must be a whole number"),
        (lambda: firm.Simulators("./none.so"), "none.so"),
        (lambda: sims.step(np.zeros((2, 2))), r"actions must have the shape \(3, 2\)"),
        (lambda: sims.step(np.full((3, 2), np.nan)), r"actions is not finite at \(0, 0\)"),
        (lambda: sims.set(0, [1.0]), r"state must have the shape \(2\)"),
        (lambda: sims.set(0, [500.0, 1.0]), "tworoom cannot be in such a state"),
        (lambda: sims.set(0, None, [-5.0, 1.0]), "tworoom cannot be in such a goal"),
        (lambda: sims.set(3, [1.0, 1.0]), "i is 3; give 0 to 2"),
        (lambda: sims.reset([1, 2]), "seeds must have the shape"),
        (lambda: sims.reset([1, -1, 2]), "seeds has -1; give whole numbers from 0 on"),
        (lambda: sims.reset([1, 1.5, 2]), "seeds must be whole numbers"),
        (lambda: sims.step(np.zeros((3, 2)), mask=[0.5, 1, 1]), "mask must be True or False for each"),
        (lambda: sims.picture([np.inf, 0]), "state is not finite"),
    ]
    for call, words in cases:
        with pytest.raises(firm.Error, match=words):
            call()
    assert np.array_equal(sims.states(), before)


def test_another_mujoco_is_refused(monkeypatch):
    pytest.importorskip("mujoco")
    available("reacher")
    monkeypatch.setattr(firm.sims, "_MUJOCO", "9.9.9")
    with pytest.raises(firm.errors.UnavailableError, match="need the package mujoco 9.9.9, which is of another version; run: pip install"):
        firm.Simulators("reacher")


def test_scenes_are_looked_for_where_the_variable_says(monkeypatch, tmp_path):
    from firm import scenes

    available("reacher")
    monkeypatch.setenv("FIRM_MODELS_DIR", str(tmp_path))
    assert scenes.find("reacher") is None
    with pytest.raises(firm.errors.UnavailableError, match="the scene of 'reacher' is not there; run: python -m firm.scenes"):
        scenes.find_or_fail("reacher")
    (tmp_path / "reacher").mkdir()
    (tmp_path / "reacher" / "reacher.xml").write_text("")
    assert scenes.find("reacher") == str(tmp_path)


def test_a_package_of_scenes_that_was_changed_is_not_used(monkeypatch, tmp_path):
    """pip finds a package of the right name and version in a folder; it is not the one that the digest names."""
    from firm import scenes

    shelf, version = tmp_path / "shelf", scenes._PINS["dm_control"][0]
    shelf.mkdir()
    with zipfile.ZipFile(shelf / f"dm_control-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("dm_control/suite/reacher.xml", "<mujoco/>")
        info = f"dm_control-{version}.dist-info/"
        wheel.writestr(info + "METADATA", f"Metadata-Version: 2.1\nName: dm_control\nVersion: {version}\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(info + "RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    with pytest.raises(firm.errors.UnavailableError, match="is not the file that was expected; nothing of it was used"):
        scenes.fetch(str(tmp_path / "to"))
    assert not (tmp_path / "to").exists()


PLUGIN = """
#include <firm_task.h>
#include <string.h>
typedef struct { double x; } sim;
static void reset(void* s, firm_random* r) { ((sim*)s)->x = firm_random_between(r, -1, 1); }
static void step(void* s, const float* a) { ((sim*)s)->x += 0.125 * a[0]; }
static void get(const void* s, double* state) { state[0] = ((const sim*)s)->x; }
static void set(void* s, const double* state) { ((sim*)s)->x = state[0]; }
static void render(const void* s, uint8_t* rgb) { memset(rgb, ((const sim*)s)->x > 0 ? 255 : 0, 64 * 64 * 3); }
static void config(const double* state, float* c) { c[0] = (float)state[0]; }
static const firm_simulator simulator = {.size = sizeof simulator, .bytes = sizeof(sim), .reset = reset, .step = step,
    .state_get = get, .state_set = set, .render = render, .config = config};
static const firm_task task = {.size = sizeof task, .typed = TYPED, .title = "a bead on a rod", .version = "bead 1",
    .state_dim = 1, .simulator = &simulator};
FIRM_TASK_EXPORT const firm_task* firm_task_entry(int abi) { return abi == FIRM_TASK_ABI ? &task : 0; }
"""


def test_a_plug_in_runs_by_its_path(tmp_path):
    compiler = shutil.which("cc") or pytest.skip("no compiler")
    lines = ["[task]", "name = bead", "image = 64", "period_ms = 0", "controls = 5", "cost = sum", "chi = 1", "[action]", "count = 1", "low = -1", "high = 1", "clamped = no"]
    lines += ["[config]", "x = position", "[distance]", "bead = norm x, 1 m, 0.1", ""]
    typed = "\\n".join(lines)
    source = tmp_path / "bead.c"
    source.write_text(PLUGIN.replace("TYPED", f'"{typed}"'))
    library = tmp_path / "bead.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-I", os.path.join(ROOT, "include"), str(source), "-o", str(library)], check=True)
    sims = firm.Simulators(str(library), 2)
    sims.set(0, [0.5], [0.25])
    sims.step([[-1.0], [0.0]])
    assert sims.states()[0, 0] == 0.375 and sims.frames().shape == (2, 64, 64, 3)
    assert sims.distances()[0, 0] == pytest.approx(0.125)
