#!/usr/bin/env python3
"""Writes docs/python.md from the package's docstrings: python/make_docs.py [PATH]. A test compares the two."""

import dataclasses
import inspect
import os
import re
import sys

HEAD = """# From Python

The package `firm-wm` (import `firm`) binds libfirm and the simulators. It checks shapes and types, and every error is an exception with one sentence. `python/make_docs.py` makes this page from
the docstrings.

```
python3 -m venv v
v/bin/pip install ./python               # controller, models, TwoRoom; Push-T where libchipmunk-dev is installed
v/bin/pip install './python[mujoco]'     # Reacher and Cube too; their scenes: make mujoco before, or python -m firm.scenes after
v/bin/pip install './python[progress]'   # tqdm, for progress bars; also [torch], [minari], [lerobot]
make wheel                               # a wheel for other machines, into build-python/dist
make test-python                         # the package's tests
```

| needs | when it is built | when it runs |
|---|---|---|
| models, controllers, TwoRoom, plug-ins | a C and C++ compiler; CMake and Ninja come from PyPI | NumPy, gymnasium |
| Push-T | `libchipmunk-dev`; its library goes into the wheel | nothing more |
| Reacher, Cube | the `mujoco` package, which pip fetches to build | `mujoco==3.11.0`, and the scenes |
| `firm.torch` | nothing more | `torch` (extra `[torch]`) |
| `firm.tasks.from_gymnasium` | nothing more | the environment's own package |
| `firm.train`, `firm.evaluate`, `firm.program`, `firm.Episodes` | nothing more | the program `firm` (`make build`): it needs HDF5 and others, which the wheel does not have |
| `firm.convert` | nothing more | the program, and `minari` (extra `[minari]`) or `lerobot` (extra `[lerobot]`, Python 3.12) |

<!-- figures: given -->
Python 3.9 to 3.13: the package was installed from source and its short tests ran with 3.9.18, 3.10.13, 3.11.7, 3.12.1 and 3.13.0. From 3.12 on the extension has the stable
interface (abi3), so one wheel serves them all. `mujoco==3.11.0` needs Python 3.10.

Measured from clean clones, on 2 virtual cores of an AMD EPYC that other work used as well. Both sides of a ratio ran in turn.

<!-- figures: measured.jsonl#python- -->
| what | figure | command |
|---|---|---|
| install with compiling, then README's block: the agent reaches its goal | 40.5 s on free cores, 57.8 s of CPU time | `python3 -m venv v && v/bin/pip install ./python && v/bin/python -c "BLOCK"` |
| time that `Controller.act()` adds to `firm_controller_act()` in C | 2.6 microseconds | `bench/python_overhead.py` |
| steps/s of 64 TwoRooms with pictures, beside the reference in gymnasium's SyncVectorEnv | 53.2 times (46.1 to 64.6) | `scripts/reference/vector_speed.py`, 7 rounds |
| the same: Push-T | 18.3 times (16.7 to 19.4) | |
| largest difference from the reference's steps, on a seed that no golden file has | TwoRoom, Push-T and Reacher: 0; Cube: 1.07e-12 | `scripts/reference/parity.py 61183` |

`python/examples/own_task.py` trains and controls gymnasium's Pendulum-v1 in one script, from pictures of 64 pixels. A goal is an angle and a speed at once. The rod must be within
0.15 rad of two angles: that of now, and that of 0.3 s ago at its present speed, which the blue of a picture shows. An angle alone would say little: a rod that swings passes it, and random actions reach 84 % of such goals.

The table has 100 goals 25 controls away, not solved at the start, and 95 % intervals.

<!-- figures: measured.jsonl#python-own-task -->
| form | reached | random actions | CPU time of the whole script |
|---|---:|---:|---:|
| full, seeds 131 to 134: `FIRM_PROGRAM=build/firm python python/examples/own_task.py runs/pendulum` | 100 % (96 to 100) | 30 % (22 to 40) | 7.8 minutes |
| test-sized, seeds 171 to 174: the same with `FORM=test` | 100 % (96 to 100) | 33 % (25 to 43) | 4.6 minutes |

With 500 instead of 700 updates of the grounder and the seeds 151 to 154 the test-sized form reaches 96 %. `firm.torch` has no ensembles.
"""


def text(thing):
    return inspect.cleandoc(thing.__doc__ or "")


def signature(name, thing):
    words = str(inspect.signature(thing)).replace("'", "").replace('"', "")
    words = words.replace("self, ", "").replace("(self)", "()").replace("typing.", "").replace("numpy.", "np.")
    return f"{name}{words}"


def fields(kind):
    """The comments `#:` beside a dataclass's fields, or beside what __init__ sets."""
    for line in inspect.getsource(kind).splitlines():
        found = re.match(r"\s*(?:self\.)?(\w+)\s*[:=].*#: (.*)", line)
        if found:
            yield f"- `{found[1]}`: {found[2]}"


def describe_class(path, kind):
    lines = [f"### {path}", "", text(kind), ""]
    if dataclasses.is_dataclass(kind):
        lines += [*fields(kind), ""]
    elif issubclass(kind, BaseException):
        return lines
    elif issubclass(kind, str):
        lines += [*fields(kind), ""]
    else:
        lines += ["```python", signature(path, kind), "```", "", *fields(kind)]
    for name, member in vars(kind).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            lines.append(f"- `{name}`: {' '.join(text(member).split())}")
        elif inspect.isfunction(member) or isinstance(member, staticmethod):
            member = getattr(kind, name)
            lines.append(f"- `{signature(name, member)}`: {' '.join(text(member).split())}")
    return lines + [""]


def section(title, module, names, prefix="firm."):
    lines = [f"## {title}", "", text(module), ""]
    for name in names:
        thing = getattr(module, name)
        if inspect.isclass(thing):
            lines += describe_class(prefix + name, thing)
        else:
            lines += [f"### {prefix}{name}", "", "```python", signature(prefix + name, thing), "```", "", text(thing), ""]
    return lines


def torch_section():
    """The module needs PyTorch, the page does not: its text is read without importing it."""
    import ast

    import firm

    trees = []
    for name in ("torch.py", "_lewm.py"):
        with open(os.path.join(os.path.dirname(firm.__file__), name)) as file:
            trees.append(ast.parse(file.read()))
    lines = ["## PyTorch", "", ast.get_docstring(trees[0]), ""]

    def words(node):
        return f"({ast.unparse(node.args)})".replace("self, ", "").replace("'", "").replace('"', "")

    for node in trees[0].body + trees[1].body:
        if isinstance(node, ast.FunctionDef) and node.name in ("load", "save"):
            text = " ".join(ast.get_docstring(node).split())
            lines += [f"### firm.torch.{node.name}", "", "```python", f"firm.torch.{node.name}{words(node)}", "```", "", text, ""]
        elif isinstance(node, ast.ClassDef):
            lines += [f"### firm.torch.{node.name}", "", ast.get_docstring(node), ""]
            for f in node.body:
                if isinstance(f, ast.FunctionDef) and not f.name.startswith("_"):
                    lines.append(f"- `{f.name}{words(f)}`: {' '.join(ast.get_docstring(f).split())}")
            lines.append("")
    return lines


def page():
    import firm
    from firm import controller, convert, envs, episodes, errors, model, program, scenes, sims, tasks

    lines = HEAD.splitlines() + [""]
    lines += section("Models", model, ["load", "shipped", "Model", "Info", "Distance", "Prediction"])
    lines += section("Controllers", controller, ["Controller", "Step", "Controllers", "Steps"])
    lines += section("Environments", envs, ["Environment", "Environments"], "firm.envs.")
    lines += section("Simulators", sims, ["Simulators", "TaskInfo"])
    lines += section("Tasks of your own", tasks, ["from_gymnasium", "angle", "position", "Task", "open_folder"], "firm.tasks.")
    lines += section("Train and evaluate", program, ["collect", "intervene", "audit", "train", "evaluate", "Evaluation", "Progress", "check", "run", "find"], "firm.program.")
    lines += section("Data", episodes, ["Episodes", "Episode", "Column"], "firm.episodes.")
    converters = ["to_minari", "from_minari", "to_lerobot", "from_lerobot", "to_stable_worldmodel"]
    lines += section("Other packages' data sets", convert, converters, "firm.convert.")
    lines += torch_section()
    lines += section("Scenes of Reacher and Cube", scenes, ["find", "fetch"], "firm.scenes.")
    lines += ["## Errors", "", text(errors), "", "| exception | when |", "|---|---|"]
    for name, kind in vars(errors).items():
        if inspect.isclass(kind) and issubclass(kind, firm.Error):
            bases = ", ".join(b.__name__ for b in kind.__bases__ if b is not firm.Error)
            lines.append(f"| `firm.errors.{name}` ({bases}) | {text(kind)} |")
    out = []
    for line in lines:
        if line or (out and out[-1]):
            out.append(line)
    return "\n".join(out).rstrip() + "\n"


if __name__ == "__main__":
    default = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs", "python.md")
    with open(sys.argv[1] if len(sys.argv) > 1 else default, "w") as file:
        file.write(page())
