"""The documents tell the truth: README's block runs, docs/python.md is what the docstrings say, examples run."""

import os
import runpy
import subprocess
import sys

import pytest

import firm

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_the_readmes_block_reaches_its_goal():
    with open(os.path.join(ROOT, "README.md")) as file:
        block = file.read().split("```python\n")[1].split("```")[0]
    out = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, timeout=300)
    assert out.returncode == 0, out.stderr
    assert out.stdout.startswith("reached: {'agent': ")


def test_the_page_is_what_the_docstrings_say():
    if sys.version_info[:2] != (3, 11):
        pytest.skip("signatures are written differently by other versions of Python")
    made = runpy.run_path(os.path.join(ROOT, "python", "make_docs.py"))["page"]()
    with open(os.path.join(ROOT, "docs", "python.md")) as file:
        assert file.read() == made, "make it again: python/make_docs.py"


def test_every_seeded_defect_matches_its_file():
    import seeded

    assert len(seeded.entries()) == 76  # seeded.py tries them


def test_pytorch_is_imported_when_it_is_asked_for():
    code = "import sys, firm; assert 'torch' not in sys.modules; sys.modules['torch'] = None; firm.torch"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "UnavailableError: PyTorch is not complete here" in out.stderr and "pip install 'firm-wm[torch]'" in out.stderr
    with pytest.raises(AttributeError, match="no attribute 'wings'"):
        firm.wings


@pytest.mark.long  # README's block is the same in short
@pytest.mark.parametrize("script", ["control.py", "many.py"])
def test_examples_run(script):
    path = os.path.join(ROOT, "python", "examples", script)
    out = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=300)
    assert out.returncode == 0, out.stderr


@pytest.mark.long
def test_the_notebook_runs():
    import json

    with open(os.path.join(ROOT, "python", "examples", "quickstart.ipynb")) as file:
        notebook = json.load(file)
    cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    assert len(cells) >= 4
    space = {}
    for cell in cells:
        exec(compile(cell, "quickstart.ipynb", "exec"), space)
    assert space["reached"]


@pytest.mark.long
def test_the_pytorch_example_learns():
    pytest.importorskip("torch")
    path = os.path.join(ROOT, "python", "examples", "finetune.py")
    out = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, timeout=600, env={**os.environ, "STEPS": "10", "OMP_NUM_THREADS": "1"}
    )
    assert out.returncode == 0, out.stdout + out.stderr


@pytest.mark.long
def test_a_task_that_nobody_here_wrote_is_learned_and_controlled(tmp_path):
    """Pendulum-v1 with pictures, the test-sized form: the script itself fails below 95 of 100 goals."""
    pytest.importorskip("pygame")
    try:
        firm.program.find()
    except firm.errors.UnavailableError as error:
        pytest.skip(str(error))
    path = os.path.join(ROOT, "python", "examples", "own_task.py")
    assert len(open(path).readlines()) <= 60
    out = subprocess.run([sys.executable, path, str(tmp_path / "p")], capture_output=True, text=True, timeout=1800, env={**os.environ, "FORM": "test", "SDL_VIDEODRIVER": "dummy"})
    assert out.returncode == 0, out.stdout + out.stderr[-2000:]
