"""Tasks from gymnasium environments: the folder, the plug-in, the program's whole path."""

import os
import threading

import numpy as np
import pytest

import firm

gymnasium = pytest.importorskip("gymnasium")


class Cart(gymnasium.Env):
    """A square on a line; a control pushes it, and it slows down. Colours by place, 96 x 96."""

    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self):
        self.action_space = gymnasium.spaces.Box(-2.0, 2.0, (1,), np.float32)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.render_mode = "rgb_array"
        self.place = np.zeros(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = np.array([self.np_random.uniform(-0.8, 0.8), 0.0])
        return self.place.copy(), {}

    def step(self, action):
        x, speed = self.place
        speed = 0.7 * speed + 0.02 * float(action[0])
        self.place = np.array([np.clip(x + speed, -0.9, 0.9), speed])
        return self.place.copy(), 0.0, False, False, {}

    def render(self):
        picture = np.full((96, 96, 3), 255, np.uint8)
        middle = int(round(48 + 44 * self.place[0]))
        picture[40:56, max(0, middle - 8) : middle + 8] = (200, 30, 30)
        return picture


def place_of(env):
    return env.place


def set_place(env, state):
    env.place = np.array(state)


def of_a_cart():
    x = firm.tasks.position(lambda s: s[0])
    return dict(config={"x": x}, distances={"cart": ("x", "m", 0.05)}, state=place_of, set_state=set_place, image=64)


def make(folder, **more):
    return firm.tasks.from_gymnasium(Cart, folder, **{**of_a_cart(), "name": "cart", "steps": 40, **more})


@pytest.fixture()
def task(tmp_path):
    return make(tmp_path / "cart")


def test_the_plug_in_runs_the_environment(task):
    sims = firm.Simulators(task.path, 2)
    assert sims.info.config == ("x",) and sims.info.image_size == 64 and sims.info.state_dim == 2
    sims.set(0, [0.5, 0.0], [0.25, 0.0])
    assert sims.distances()[0, 0] == pytest.approx(0.25)
    sims.step([[-0.5], [0.0]])  # -1 .. 1 stands for -2 .. 2
    env = Cart()
    env.reset(seed=0)
    env.place = np.array([0.5, 0.0])
    env.step([-1.0])
    assert np.array_equal(sims.states()[0], env.place)
    want = firm.tasks._resize(env.render(), 64)
    assert np.array_equal(sims.frames()[0], want)
    sims.reset([1, 2])
    assert not np.array_equal(sims.states()[0], sims.states()[1])
    again = firm.Simulators(task.path, 2)
    again.reset([1, 2])
    assert np.array_equal(sims.states(), again.states())


def pendulum(env, **more):
    options = dict(
        config={"rod": firm.tasks.angle(lambda s: s[0])},
        distances={"angle": ("rod", "rad", 0.15)},
        state=lambda env: env.unwrapped.state,
        set_state=lambda env, s: setattr(env.unwrapped, "state", np.array(s)),
    )
    return firm.tasks.from_gymnasium(env, **{**options, **more})


class Weak(gymnasium.ActionWrapper, gymnasium.utils.RecordConstructorArgs):
    def __init__(self, env, strength):
        gymnasium.utils.RecordConstructorArgs.__init__(self, strength=strength)
        super().__init__(env)
        self.strength = strength

    def action(self, action):
        return np.float32(self.strength * action)


class Silent(gymnasium.ActionWrapper):
    def action(self, action):
        return action


def test_a_task_is_named_and_kept_after_its_environment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = pendulum("Pendulum-v1")
    assert (task.name, task.folder) == ("pendulum", str(tmp_path / "runs" / "pendulum"))
    assert firm.tasks.open_folder("runs/pendulum") == task
    for env, name in (("firm/TwoRoom-v0", "own_tworoom"), ("ALE/Pong-v5", "pong"), ("a:b/Two-Arms-v1", "two_arms"), (Cart, "cart"), (lambda: None, "lambda"), (Cart(), "cart")):
        assert firm.tasks._name_of(env) == name


def test_an_environment_that_was_made_is_made_again(tmp_path):
    mine = gymnasium.make("Pendulum-v1", g=5.0)
    mine.reset(seed=4)
    before = mine.unwrapped.state.copy()
    sims = firm.Simulators(pendulum(mine, folder=tmp_path / "t", image=64).path)
    assert np.array_equal(mine.unwrapped.state, before)
    sims.set(0, before)
    sims.step([[0.5]])
    mine.step(np.float32([1.0]))
    assert np.array_equal(sims.states()[0], mine.unwrapped.state)  # g is the caller's
    sims = firm.Simulators(pendulum(Weak(gymnasium.make("Pendulum-v1", g=5.0), 0.5), folder=tmp_path / "w", image=64).path)
    sims.set(0, before)
    sims.step([[1.0]])  # all that the wrapper allows is half of the torque
    assert np.array_equal(sims.states()[0], mine.unwrapped.state)
    bare = firm.Simulators(pendulum(mine.unwrapped, folder=tmp_path / "b", image=64, state=lambda env: env.state).path)
    bare.set(0, before)
    bare.step([[0.5]])
    assert np.array_equal(bare.states()[0], mine.unwrapped.state)


def test_an_environment_that_nobody_registered_is_kept_as_it_is(tmp_path):
    mine = Cart()
    mine.reset(seed=1)
    mine.action_space = gymnasium.spaces.Box(-4.0, 4.0, (1,), np.float32)
    before = mine.place.copy()
    sims = firm.Simulators(firm.tasks.from_gymnasium(mine, tmp_path / "t", **of_a_cart()).path)
    assert np.array_equal(mine.place, before)
    sims.set(0, before)
    sims.step([[0.5]])
    mine.step([2.0])
    assert np.array_equal(sims.states()[0], mine.place)
    mine.lock = threading.Lock()
    with pytest.raises(firm.errors.UsageError, match="the task cannot be kept in a folder .*give functions that hold no open files"):
        firm.tasks.from_gymnasium(mine, tmp_path / "u", **of_a_cart())
    assert not (tmp_path / "u").exists()


def test_environments_that_cannot_be_made_say_so(tmp_path):
    with pytest.raises(firm.errors.UsageError, match="gymnasium does not make this environment: .*Pendulum"):
        pendulum("Pendulum-v99", folder=tmp_path / "t")
    with pytest.raises(firm.errors.UsageError, match="gymnasium does not make this environment: .*Silent"):
        pendulum(Silent(gymnasium.make("Pendulum-v1")), folder=tmp_path / "t")
    with pytest.raises(TypeError, match="neither a registered name nor an environment, must be a function, not 3"):
        pendulum(3, folder=tmp_path / "t")
    with pytest.raises(firm.errors.RangeError, match="what `state` gives is not finite"):
        pendulum("Pendulum-v1", folder=tmp_path / "t", state=lambda env: np.full(2, np.nan))
    with pytest.raises(firm.Error, match="what `state` gives must .*numbers"):
        pendulum("Pendulum-v1", folder=tmp_path / "t", state=lambda env: "upright")
    assert not (tmp_path / "t").exists()


def test_pictures_shrink_by_means():
    picture = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    half = firm.tasks._resize(picture, 2)
    assert half.shape == (2, 2, 3) and half[0, 0, 0] == round(picture[:2, :3, 0].mean())
    noise = np.random.default_rng(4).integers(0, 256, (6, 4, 3)).astype(np.uint8)
    means = noise.reshape(2, 3, 2, 2, 3).mean(axis=(1, 3))
    assert np.array_equal(firm.tasks._resize(noise, 2), np.rint(means)) and (means % 1 > 0.5).any()
    assert np.array_equal(firm.tasks._resize(picture[:, :4], 4), picture[:, :4])
    assert firm.tasks._resize(picture, 8).shape == (8, 8, 3)


def test_choices_are_one_number(tmp_path):
    def choose():
        env = Cart()
        env.action_space = gymnasium.spaces.Discrete(3, start=-1)
        env.step = lambda action, old=env.step: old([2.0 * action])
        return env

    firm.tasks.from_gymnasium(
        choose, tmp_path / "t", config={"x": firm.tasks.position(lambda s: s[0])}, distances={"cart": ("x", "m", 0.05)},
        state=place_of, set_state=set_place, name="choice", image=64,
    )
    sims = firm.Simulators(str(tmp_path / "t" / "task.so"), 3)
    for i in range(3):
        sims.set(i, [0.0, 0.0])
    sims.step([[-1.0], [0.1], [1.0]])
    assert np.sign(sims.states()[:, 0]).tolist() == [-1, 0, 1]


def test_a_failing_environment_stops_with_a_sentence(tmp_path, capfd):
    def broken(env, state):
        raise RuntimeError("the motor is off")

    task = make(tmp_path / "t", set_state=broken)
    sims = firm.Simulators(task.path)
    with pytest.raises(firm.Error, match="simulator 0 of cart"):
        sims.reset([1])
    assert "the motor is off" in capfd.readouterr().err


@pytest.mark.parametrize(
    "more, words",
    [
        (dict(config={}), "config must map names"),
        (dict(config={"x": lambda s: s[0]}), "config must map names"),
        (dict(distances={"cart": ("y", "m", 0.1)}), "is of 'y', which config does not have"),
        (dict(distances={"cart": "x"}), r"must be \(coordinates, unit, tolerance\)"),
        (dict(name="two words"), "must be a word"),
        (dict(state=lambda env: np.zeros(65)), "65 numbers; 1 to 64"),
    ],
)
def test_wrong_descriptions_say_so(tmp_path, more, words):
    with pytest.raises(ValueError, match=words):
        make(tmp_path / "t", **more)
    assert not (tmp_path / "t").exists()


def test_other_folders_are_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(ValueError, match="holds other things"):
        make(tmp_path)
    with pytest.raises(FileNotFoundError, match="holds no task"):
        firm.tasks.open_folder(tmp_path)


def test_a_missing_program_says_what_to_do(task, monkeypatch):
    monkeypatch.setenv("FIRM_PROGRAM", "/none/firm")
    with pytest.raises(firm.errors.UnavailableError, match="make build"):
        firm.program.collect(task, "x.h5")


def test_angles_are_a_sine_and_a_cosine(tmp_path):
    config = {"turn": firm.tasks.angle(lambda s: 0.1 + s[0]), "x": firm.tasks.position(lambda s: s[0])}
    task = make(tmp_path / "t", config=config, distances={"turn": ("turn", "rad", 0.2), "cart": ("x", "m", 0.05)})
    sims = firm.Simulators(task.path)
    sims.set(0, [0.5, 0.0], [0.3, 0.0])
    assert sims.info.config == ("turn_sin", "turn_cos", "x")
    np.testing.assert_allclose(sims.configs()[0], [np.sin(0.6), np.cos(0.6), 0.5], rtol=1e-6)
    np.testing.assert_allclose(sims.distances()[0], [0.2, 0.2], rtol=1e-5)
    with pytest.raises(ValueError, match="angles come first"):
        make(tmp_path / "u", config=dict(reversed(list(config.items()))))


def test_a_start_has_nothing_that_its_state_does_not_tell(tmp_path):
    """The environment remembers its last push; a random start is brought back through the setter, as any other is."""

    class Remembers(Cart):
        def reset(self, **options):
            self.last = 0.5
            return super().reset(**options)

        def step(self, action):
            moved = super().step(np.asarray(action) + self.last)
            self.last = float(action[0])
            return moved

    def set_both(env, state):
        env.place, env.last = np.array(state), 0.0

    options = dict(config={"x": firm.tasks.position(lambda s: s[0])}, distances={"cart": ("x", "m", 0.05)}, state=place_of)
    task = firm.tasks.from_gymnasium(Remembers, tmp_path / "t", set_state=set_both, name="cart", image=64, **options)
    sims = firm.Simulators(task.path)
    sims.reset([1])
    start = sims.states()[0]
    sims.step([[0.25]])
    moved = sims.states()[0]
    sims.set(0, start)
    sims.step([[0.25]])
    assert np.array_equal(sims.states()[0], moved)


def children():
    """Processes that serve simulators of this one."""
    found = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as stat, open(f"/proc/{pid}/cmdline") as line:
                found += stat.read().rsplit(")", 1)[1].split()[1] == str(os.getpid()) and "firm._serve" in line.read()
        except OSError:
            pass
    return found


def test_the_processes_of_simulators_end_with_them(task):
    before = children()
    sims = firm.Simulators(task.path, 2)
    sims.reset([1, 2])
    assert children() >= before + 2
    del sims
    assert children() <= before + 1  # one more answers for all that ask about states


@pytest.mark.long
def test_a_task_that_does_not_come_back_fails_its_check(tmp_path):
    """set_state forgets the speed: the program's check says so, and raises."""
    program()

    def forgets(env, state):
        env.place = np.array([state[0], 0.0])

    with pytest.raises(firm.errors.GateError, match="replays: restored moments replay up to .* the state leaves something out"):
        firm.program.check(make(tmp_path / "t", set_state=forgets))


def program():
    try:
        return firm.program.find()
    except firm.errors.UnavailableError as error:
        pytest.skip(str(error))


@pytest.mark.long
def test_the_whole_path_from_python(task, tmp_path):
    program()
    data, branches, out = tmp_path / "f.h5", tmp_path / "i.h5", tmp_path / "run"
    assert firm.program.collect(task, data, episodes=30)["rows"] == 30 * 41
    firm.program.intervene(task, data, branches, anchors=8)
    assert firm.program.audit(task, data)["task"] == "cart"
    lines = []
    firm.train(task, data, branches, out=out, config="smoke", settings={"model.grid": 4}, callback=lines.append)
    assert lines and os.path.isfile(out / "model.safetensors")
    result = firm.evaluate(task, out / "model.safetensors", arms=["firm", "random"], trials=4, offset=10, callback=lines.append)
    assert [row["arm"] for row in result.rows] == ["firm", "random"]
    assert {"success_rate", "ci95_low", "ci95_high"} <= result.rows[0].keys()
    assert [(pair["a"], pair["b"]) for pair in result.pairs] == [("firm", "random")]
    assert result.pairs[0]["rescue"] - result.pairs[0]["harm"] == sum(result.outcomes["firm"]) - sum(result.outcomes["random"])
    model = firm.load(out / "model.safetensors")
    assert model.info.task == "cart" and model.info.image_size == 64
    with pytest.raises(firm.Error, match="none.h5"):
        firm.train(task, tmp_path / "none.h5", branches, out=tmp_path / "other", callback=lines.append)
