"""FIRM-WM: a pixel world model for robots. Goal image in, actions out.

    import firm
    ctl = firm.Controller("tworoom", mode="reach", deadline_ms=50)
    ctl.goal(goal_picture)
    ctl.push(camera_picture)
    step = ctl.act()            # step.action, step.plan, step.path, step.distances

Environments are in firm.envs (gymnasium: "firm/TwoRoom-v0"), PyTorch modules in firm.torch."""

from typing import Any

from . import convert, errors, program, tasks
from .controller import Controller, Controllers, Step, Steps
from .episodes import Episode, Episodes
from .errors import Error
from .model import Distance, Info, Model, Prediction, load, shipped
from .program import evaluate, train
from .sims import Simulators, TaskInfo

__version__ = "0.2.0"
__all__ = [
    "Controller",
    "Controllers",
    "Distance",
    "Episode",
    "Episodes",
    "Error",
    "Info",
    "Model",
    "Prediction",
    "Simulators",
    "Step",
    "Steps",
    "TaskInfo",
    "convert",
    "errors",
    "evaluate",
    "load",
    "program",
    "shipped",
    "tasks",
    "train",
]

# gymnasium 1 reads no entry points: importing this package is what registers the environments
try:
    import gymnasium as _gymnasium  # noqa: F401
except ImportError:
    pass
else:
    from . import envs  # noqa: F401


def __getattr__(name: str) -> Any:
    """firm.torch is imported when it is first asked for: PyTorch takes seconds, and need not be there."""
    if name != "torch":
        raise AttributeError(f"module 'firm' has no attribute {name!r}")
    import importlib

    try:
        return importlib.import_module("firm.torch")
    except ImportError as error:
        raise errors.UnavailableError(f"PyTorch is not complete here ({error}); run: pip install 'firm-wm[torch]'") from None
