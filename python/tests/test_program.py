"""The program from Python: progress, Ctrl-C, failures."""

import os
import signal

import pytest

import firm
from firm import program


@pytest.fixture()
def interrupt(monkeypatch):
    """Ctrl-C as soon as the program has counted something."""
    pytest.importorskip("tqdm")
    counts, sent = program._Bars.counts, []

    def count(self, line):
        counts(self, line)
        if not sent:
            sent.append(line)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(program._Bars, "counts", count)
    # a process that a shell starts in the background ignores the signal
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield sent
    signal.signal(signal.SIGINT, before)


def test_tqdm_shows_what_the_program_counts(file, tmp_path, capfd):
    pytest.importorskip("tqdm")
    assert program.collect("tworoom", tmp_path / "f.h5", episodes=40)["episodes"] == 40
    shown = capfd.readouterr().err
    assert "collect tworoom: 100%" in shown and "40/40" in shown and "@progress" not in shown


def test_without_tqdm_there_are_lines(file, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(program._Bars, "__init__", lambda self: self.__dict__.update(tqdm=None, _bar=None))
    program.collect("tworoom", tmp_path / "f.h5", episodes=40)
    assert "collect tworoom 40 in " in capfd.readouterr().err
    lines = []
    program.run("collect", "tworoom", "-o", tmp_path / "g.h5", "--episodes", 40, callback=lines.append)
    assert capfd.readouterr().err == ""
    last = lines[-1]
    assert last == "collect tworoom 40 of 40" and (last.label, last.done, last.total, last.note) == ("collect tworoom", 40, 40, "")
    firm.evaluate("tworoom", arms=["random"], trials=4, callback=lines.append)
    assert "%" in lines[-1].note and lines[-1].done == lines[-1].total


def test_ctrl_c_reaches_the_program_and_leaves_nothing_half_written(file, tmp_path, interrupt):
    with pytest.raises(KeyboardInterrupt, match="firm collect: stopped by SIGINT; files that were not finished"):
        program.collect("tworoom", tmp_path / "f.h5", episodes=100000)
    assert interrupt and os.listdir(tmp_path) == []


def test_progress_is_a_text_with_its_parts():
    line = program.Progress.of("@progress 12 0 train tworoom grounder\tloss 0.5")
    assert line == "train tworoom grounder 12 loss 0.5" and (line.label, line.done, line.total, line.note) == ("train tworoom grounder", 12, 0, "loss 0.5")
    line = program.Progress.of("the gate was missed")
    assert line == "the gate was missed" and (line.label, line.done, line.total, line.note) == ("", 0, 0, "")


def test_an_open_file_of_episodes_stands_for_its_path(file):
    with firm.Episodes("tworoom", file) as data:
        assert os.fspath(data) == str(file)
        assert firm.program.audit("tworoom", data, quiet=True)["task"] == "tworoom"


def test_a_callback_that_fails_ends_the_program(file, tmp_path):
    def fail(line):
        raise RuntimeError("the display is gone")

    with pytest.raises(RuntimeError, match="the display is gone"):
        program.run("collect", "tworoom", "-o", tmp_path / "f.h5", "--episodes", 40, callback=fail)


def test_a_failure_has_the_program_s_sentence(file, tmp_path):
    with pytest.raises(firm.Error, match="firm describe: .*none.h5 does not exist"):
        program.run("describe", "tworoom", "--data", tmp_path / "none.h5")
    with pytest.raises(firm.Error, match="there is no command 'fly'"):
        program.run("fly")


def test_keywords_are_flags_and_settings(file, capfd):
    result = firm.evaluate("tworoom", arms=["random"], trials=8, deadline_ms=5, unsolved=True, seed=3, quiet=True)
    (row,) = result.rows
    assert row["arm"] == "random" and row["ci95_low"] < row["ci95_high"] and row["ci95_low"] <= row["success_rate"] <= row["ci95_high"]
    assert len(result.outcomes["random"]) == 8 and 100 * sum(result.outcomes["random"]) / 8 == row["success_rate"]
    assert result.pairs == []
    for model in ("tworoom", firm.load("tworoom"), firm.load("tworoom").path):
        again = firm.evaluate("tworoom", model, arms=["random"], trials=8, deadline_ms=5, unsolved=True, seed=3, quiet=True)
        assert again.outcomes == result.outcomes
    with pytest.raises(firm.errors.MissingError, match="no shipped model 'threeroom'"):
        firm.evaluate("tworoom", "threeroom")
    with pytest.raises(firm.Error, match="plan.wings"):
        firm.evaluate("tworoom", arms=["random"], trials=8, settings={"plan.wings": 2}, quiet=True)
    assert program._options(dict(a_b=1, c=None, d=True, e=False, f="x")) == ["--a-b", "1", "--d", "--f", "x"]


@pytest.mark.long
def test_a_training_that_was_stopped_continues(file, tmp_path, interrupt):
    branches, out = tmp_path / "i.h5", tmp_path / "run"
    data = tmp_path / "f.h5"
    program.collect("tworoom", data, episodes=60, quiet=True)
    program.intervene("tworoom", data, branches, anchors=8, quiet=True)
    options = dict(config="smoke", settings={"stage.grounder.batch": 8, "train.segments": 8, "train.support": 64})
    with pytest.raises(KeyboardInterrupt, match="firm train: .*to go on: .* --resume; resume=True continues from there"):
        firm.train("tworoom", data, branches, out=out, **options)
    assert (out / "checkpoint.safetensors").is_file() and not (out / "model.safetensors").exists()
    firm.train("tworoom", data, branches, out=out, resume=True, **options)
    whole = tmp_path / "whole"
    firm.train("tworoom", data, branches, out=whole, **options)
    assert (out / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
