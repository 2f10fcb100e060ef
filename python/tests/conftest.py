"""What the tests share: one model of each task, and a picture of each."""

import pytest

import firm


@pytest.fixture(scope="session")
def model():
    return firm.load("tworoom")


@pytest.fixture(scope="session")
def file(tmp_path_factory):
    """Five episodes of TwoRoom without pictures."""
    try:
        firm.program.find()
    except firm.errors.UnavailableError as error:
        pytest.skip(str(error))
    path = tmp_path_factory.mktemp("episodes") / "f.h5"
    firm.program.collect("tworoom", path, episodes=5, seed=3, quiet=True)
    return path


@pytest.fixture()
def sims():
    s = firm.Simulators("tworoom", 3)
    s.reset([11, 12, 13])
    return s


@pytest.fixture()
def frame(sims):
    return sims.frames()[0]


@pytest.fixture()
def goal(sims):
    return sims.picture([60.0, 150.0])


def available(task):
    """Simulators of a task, or a skip that says why not."""
    try:
        return firm.Simulators(task, 2)
    except firm.errors.UnavailableError as error:
        pytest.skip(str(error))


def small(model, **more):
    """A controller that plans little."""
    return firm.Controller(model, candidates=16, iterations=2, horizon=3, threads=1, **more)


