"""Objectives: their options, and how a program's log is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tuner.launch.objectives import EndedLaunch, objective_for, with_argument
from tuner.launch.objectives.logreport import LogReport
from tuner.model import Failed, FailureKind, Finished, ObjectiveSpec, Progress
from tuner.model.errors import UsageError
from tuner.stats.loss_check import DIVERGED


@pytest.mark.parametrize(
    ("typed", "spec"),
    [
        ("logreport", ObjectiveSpec()),
        ("logreport:main/accuracy", ObjectiveSpec(key="main/accuracy")),
        ("logreport:steady", ObjectiveSpec(statistic="steady")),
        ("wall", ObjectiveSpec(kind="wall")),
        ("pattern:a: (b:c)", ObjectiveSpec(kind="pattern", pattern="a: (b:c)")),
        ("theirs:what it wants", ObjectiveSpec(kind="theirs", key="what it wants")),
        ("pattern:", None),
        ("wall:5", None),
    ],
)
def test_what_is_typed(typed: str, spec: ObjectiveSpec | None) -> None:
    if spec is not None:
        assert with_argument(ObjectiveSpec(), typed) == spec
        return
    with pytest.raises(UsageError) as caught:
        with_argument(ObjectiveSpec(), typed)
    assert repr(typed) in caught.value.message and caught.value.hint


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kind": "speed"}, "unknown objective: speed"),
        ({"filename": "../x"}, "not the name of a file below the output folder"),
        ({"kind": "wall", "unit": "ms"}, "--unit ms: the wall time is in seconds"),
        ({"maximize": True}, "--maximize: the elapsed_time is better if it is smaller"),
        ({"key": "v", "unit": "ms", "maximize": True}, "a time in ms is better if it is"),
        ({"key": "v", "unit": "it/s"}, "the lowest rate in it/s would count as the best"),
        ({"key": "v", "unit": "seconds"}, "the unit 'seconds' is not known as a time"),
        ({"key": "v", "statistic": "steady"}, "from the elapsed_time of a log; the objective is"),
        ({"kind": "wall", "key": "v"}, "the key 'v' is read from a log; the objective is wall"),
        ({"pattern": "(.)"}, "a pattern is given, but the objective is logreport"),
        ({"kind": "pattern"}, "has no regular expression"),
        ({"kind": "pattern", "pattern": "P: ([0-9.+"}, "is not a regular expression: "),
        ({"kind": "pattern", "pattern": "(?:[0-9.]+)"}, "has no group for the figure"),
    ],
)
def test_options_that_cannot_be_used(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        objective_for(ObjectiveSpec(**options))
    assert said in caught.value.message and caught.value.hint


Entry = dict[str, Any]


def entries(*elapsed: float) -> list[Entry]:
    """A log of an entry an iteration, with these times."""
    return [{"iteration": n, "elapsed_time": time_s} for n, time_s in enumerate(elapsed, start=1)]


#: How a log of each name is written.
FORMATS: dict[str, Callable[[Sequence[Entry]], str]] = {
    "log": lambda log: json.dumps(log, indent=4),
    "log.json": json.dumps,
    "log.jsonl": lambda log: "".join(f"{json.dumps(entry)}\n" for entry in log),
}


def ended(folder: Path) -> EndedLaunch:
    return EndedLaunch(folder, folder / "output.log", 1.0)


def report(spec: ObjectiveSpec | None = None) -> LogReport:
    return LogReport(spec or ObjectiveSpec())


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("by_suffix", [True, False])
def test_each_format_is_read(name: str, by_suffix: bool, tmp_path: Path) -> None:
    log = [{**entry, "epoch_detail": 0.25 * entry["iteration"]} for entry in entries(1.5, 3.25)]
    (tmp_path / (name if by_suffix else "log")).write_text(FORMATS[name](log))
    assert report().result(ended(tmp_path)) == Finished(3.25, 2, 0.5)
    assert report().progress(tmp_path) == (Progress(1, 1.5), Progress(2, 3.25))


@pytest.mark.parametrize(
    ("last", "key", "loss"),
    [
        ({}, "", None),
        ({"main/loss": float("nan")}, "", DIVERGED),
        ({"loss": 3, "validation/main/loss": 0.25}, "", 0.25),
        ({"main/loss": 0.5, "mine": 2}, "mine", 2.0),
        ({"main/loss": 0.5}, "mine", 7.0),
    ],
)
def test_the_last_loss_is_read(tmp_path: Path, last: Entry, key: str, loss: float | None) -> None:
    log = entries(1.0, 2.0)
    (tmp_path / "log").write_text(json.dumps([{**log[0], "mine": 7}, {**log[1], **last}]))
    ending = report(ObjectiveSpec(loss_key=key)).result(ended(tmp_path))
    assert isinstance(ending, Finished) and ending.loss == loss


def test_a_log_that_is_no_use_says_what_was_found(tmp_path: Path) -> None:
    for content, said in (
        ("", "is empty"),
        ("[]", "has no entries"),
        ('[{"iteration": 1, "elapsed_time": 1.0}, {"iter', "is truncated"),
        (b"\x89PNG\r\n", "is not text"),
        ("[" * 100_000, "nested too deeply"),
        ("[{}]", "has no iteration in entry 1"),
        ('[{"iteration": 1, "elapsed_time": "12"}]', "elapsed_time '12'"),
        ('[{"iteration": 1, "elapsed_time": 0}]', "nothing was measured"),
        ('[{"iteration": 1, "elapsed_time": 1' + "0" * 400 + "}]", "elapsed_time inf"),
        (json.dumps(entries(2.0, 1.0)), "in entry 2: from iteration 1 at 2.0 s to 2 at 1.0 s"),
    ):
        data = content if isinstance(content, bytes) else content.encode()
        (tmp_path / "log").write_bytes(data)
        ending = report().result(ended(tmp_path))
        assert isinstance(ending, Failed) and ending.kind is FailureKind.BAD_LOG
        assert said in ending.reason and str(tmp_path / "log") in ending.reason
        assert "\n" not in ending.reason


def test_progress_keeps_what_it_saw_while_the_file_is_away(tmp_path: Path) -> None:
    path, log = tmp_path / "log", report()
    assert log.progress(tmp_path) == ()
    ending = log.result(ended(tmp_path))
    assert isinstance(ending, Failed) and ending.kind is FailureKind.NO_LOG
    assert str(path) in ending.reason
    path.write_text(json.dumps(entries(1.0)))
    assert log.progress(tmp_path) == (Progress(1, 1.0),)
    path.unlink()
    assert log.progress(tmp_path) == (Progress(1, 1.0),)
    path.write_text('[{"iteration": 1')
    assert log.progress(tmp_path) == (Progress(1, 1.0),)
    path.write_text(json.dumps(entries(1.0, 2.0, 0.5)))
    assert log.progress(tmp_path) == (Progress(1, 1.0), Progress(2, 2.0)), "what is sound"


def test_the_steady_state_leaves_out_the_first_fifth(tmp_path: Path) -> None:
    def read(*elapsed: float) -> Finished | Failed:
        (tmp_path / "log").write_text(json.dumps(entries(*elapsed)))
        return report(ObjectiveSpec(statistic="steady")).result(ended(tmp_path))

    assert read(9.0, 10.0, 11.0, 12.0, 13.0) == Finished(1.0, 5), "the first of five warms up"
    assert read(100.0, 100.5) == Finished(0.5, 2)
    for ending in (read(1.0), read(1.0, 1.0, 1.0)):
        assert isinstance(ending, Failed) and ending.kind is FailureKind.BAD_LOG
        assert "has no steady state: no two entries with time between them" in ending.reason


@pytest.mark.parametrize(
    ("more", "epochs"),
    [
        ([{"epoch_detail": 0.1}, {"epoch_detail": 0.2}], 0.2),
        ([{"epoch_detail": 0.1}, {}], None),
        ([{"epoch": 1}, {"epoch": 2}], 2.0),
        ([{"epoch": 2}, {"epoch": 4}], None),
    ],
)
def test_epochs_are_exact_or_none(more: list[Entry], epochs: float | None, tmp_path: Path) -> None:
    log = [{**entry, **own} for entry, own in zip(entries(1.0, 2.0), more, strict=True)]
    (tmp_path / "log").write_text(json.dumps(log))
    assert report().result(ended(tmp_path)) == Finished(2.0, 2, epochs)
