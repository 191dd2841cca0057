from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.written_logs import FORMATS, as_lines, entries
from tuner.launch.objectives import EndedLaunch, objective_for
from tuner.launch.objectives.logreport import READS, LogReport
from tuner.model import Failed, FailureKind, Finished, ObjectiveSpec, Progress
from tuner.model.errors import UsageError
from tuner.stats.loss_check import DIVERGED


def ended(folder: Path) -> EndedLaunch:
    return EndedLaunch(folder, folder / "output.log", 1.0)


def report(spec: ObjectiveSpec | None = None) -> LogReport:
    return LogReport(spec or ObjectiveSpec(), sleep=lambda _: None)


def failed(folder: Path, content: bytes | str, name: str = "log") -> Failed:
    data = content if isinstance(content, bytes) else content.encode()
    (folder / name).write_bytes(data)
    ending = report().result(ended(folder))
    assert isinstance(ending, Failed)
    return ending


# --- what a program writes ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["log.jsonl", "log.yaml"])
def test_each_format_is_known_by_its_content(name: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(FORMATS[name](entries(1.5, 3.25)))
    assert report().result(ended(tmp_path)) == Finished(3.25, 2)


def test_a_loss_of_nan_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(json.dumps([{**entries(2.0)[0], "main/loss": float("nan")}]))
    assert report().result(ended(tmp_path)) == Finished(2.0, 1, loss=DIVERGED)


@pytest.mark.parametrize(
    ("last", "key", "loss"),
    [
        ({}, "", None),
        ({"main/loss": 0.5}, "", 0.5),
        ({"loss": 3, "validation/main/loss": 0.25}, "", 0.25),
        ({"main/loss": "low", "loss": 0.125}, "", 0.125),
        ({"main/loss": 0.5, "mine": 2}, "mine", 2.0),
        ({"main/loss": 0.5}, "mine", 7.0),
        ({"main/loss": 0.5}, "nowhere", None),
    ],
)
def test_the_last_loss_is_read(
    tmp_path: Path, last: dict[str, object], key: str, loss: float | None
) -> None:
    log = entries(1.0, 2.0)
    (tmp_path / "log").write_text(json.dumps([{**log[0], "mine": 7}, {**log[1], **last}]))
    found = LogReport(ObjectiveSpec(loss_key=key)).result(ended(tmp_path))
    assert isinstance(found, Finished) and found.loss == loss


@pytest.mark.parametrize("name", FORMATS)
def test_how_many_epochs_were_done_is_read(name: str, tmp_path: Path) -> None:
    log = [{**entry, "epoch_detail": 0.25 * entry["iteration"]} for entry in entries(1.5, 3.25)]
    (tmp_path / name).write_text(FORMATS[name](log))
    assert report().result(ended(tmp_path)) == Finished(3.25, 2, 0.5)


# --- what it should not write ------------------------------------------------------------


def test_no_log_names_the_file(tmp_path: Path) -> None:
    ending = report().result(ended(tmp_path))
    assert isinstance(ending, Failed)
    assert ending.kind is FailureKind.NO_LOG
    assert str(tmp_path / "log") in ending.reason


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("", "is empty"),
        (" \n", "is empty"),
        ("[]", "has no entries"),
        ('[{"iteration": 1, "elapsed_time": 1.0}, {"iter', "is truncated"),
        ('[{"iteration": 1, "elapsed_time": 1.0}', "is truncated"),
        ("epoch  main/loss\n1   0.5\n", "is not a LogReport"),
        ("[1, 2]", "is not a list of entries"),
        ('{"a": 1}', "has no iteration in entry 1"),
        (b"\x89PNG\r\n", "is not text"),
        ("[" * 100_000, "nested too deeply"),
        ("[{}]", "has no iteration in entry 1"),
        ('[{"iteration": 1}]', "has no elapsed_time in entry 1"),
        ('[{"iteration": true, "elapsed_time": 1}]', "iteration True"),
        ('[{"iteration": -1, "elapsed_time": 1}]', "iteration -1"),
        ('[{"iteration": 1, "elapsed_time": true}]', "elapsed_time True"),
        ('[{"iteration": 1, "elapsed_time": "12"}]', "elapsed_time '12'"),
        ('[{"iteration": 1, "elapsed_time": null}]', "elapsed_time None"),
        ('[{"iteration": 1, "elapsed_time": -0.5}]', "elapsed_time -0.5"),
        ('[{"iteration": 1, "elapsed_time": NaN}]', "elapsed_time nan"),
        ('[{"iteration": 1, "elapsed_time": Infinity}]', "elapsed_time inf"),
        ('[{"iteration": 1, "elapsed_time": 0}]', "nothing was measured"),
        ('[{"iteration": 1, "elapsed_time": 1' + "0" * 400 + "}]", "elapsed_time inf"),
        (json.dumps(entries(2.0, 1.0)), "clock that goes backwards: elapsed_time from 2.0 to 1.0"),
        (json.dumps(entries(1.0, 2.0)[::-1]), "backwards"),
        (as_lines(entries(1.0, 2.0))[:-5], "is truncated"),
        ("- iteration: 1\n  elapsed_time: .nan\n", "elapsed_time nan"),
        ("- iteration: 1\n  elapsed_time: [\n", "truncated or not YAML"),
        ("- !!python/object/apply:os.system ['true']\n", "not YAML"),
        ("- !!int ''\n", "is not a LogReport"),
    ],
)
def test_a_log_that_is_no_use_says_what_was_found(
    content: bytes | str, found: str, tmp_path: Path
) -> None:
    ending = failed(tmp_path, content)
    assert ending.kind is FailureKind.BAD_LOG
    assert found in ending.reason
    assert str(tmp_path / "log") in ending.reason
    assert "\n" not in ending.reason


def test_a_folder_in_its_place_leaves_no_file_open(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        assert report().progress(tmp_path) == ()
        assert isinstance(report().result(ended(tmp_path)), Failed)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


# --- a log that is being replaced --------------------------------------------------------


@pytest.mark.parametrize("before", [None, "", '[{"iteration": 1, "elap'])
def test_a_file_in_mid_replacement_is_read_again(before: str | None, tmp_path: Path) -> None:
    path = tmp_path / "log"
    if before is not None:
        path.write_text(before)
    pauses = []

    def replace(pause_s: float) -> None:
        pauses.append(pause_s)
        path.write_text(json.dumps(entries(4.0)))

    assert LogReport(ObjectiveSpec(), sleep=replace).result(ended(tmp_path)) == Finished(4.0, 1)
    assert len(pauses) == 1


def test_the_reading_again_has_an_end(tmp_path: Path) -> None:
    pauses: list[float] = []
    assert isinstance(
        LogReport(ObjectiveSpec(), sleep=pauses.append).result(ended(tmp_path)), Failed
    )
    assert len(pauses) == READS - 1


def test_progress_keeps_what_it_saw_while_the_file_is_away(tmp_path: Path) -> None:
    path, log = tmp_path / "log", report()
    assert log.progress(tmp_path) == ()
    path.write_text(json.dumps(entries(1.0)))
    assert log.progress(tmp_path) == (Progress(1, 1.0),)
    path.unlink()
    assert log.progress(tmp_path) == (Progress(1, 1.0),)
    path.write_text('[{"iteration": 1')
    assert log.progress(tmp_path) == (Progress(1, 1.0),)
    path.write_text(json.dumps(entries(1.0, 2.0, 0.5)))
    assert log.progress(tmp_path) == (Progress(1, 1.0), Progress(2, 2.0)), "what is sound"


# --- before the launch -------------------------------------------------------------------


def test_old_logs_are_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in (*FORMATS, "log.yml", "logs", "model.npz"):
        (tmp_path / name).write_text("old")
    report().prepare(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs", "model.npz"]
    report().prepare(tmp_path / "not yet there")


def test_a_log_that_cannot_be_removed_is_the_users_to_solve(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    with pytest.raises(UsageError, match="cannot be removed"):
        report().prepare(tmp_path)


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../log"])
def test_a_log_outside_the_output_folder_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="output folder"):
        objective_for(ObjectiveSpec(filename=name))


# --- other keys, and the steady state ---------------------------------------------------------


def test_a_key_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(json.dumps(entries(1.0)))
    ending = report(ObjectiveSpec(key="val")).result(ended(tmp_path))
    assert isinstance(ending, Failed)
    assert ending.reason.endswith("has no val in any entry; its keys are iteration, elapsed_time")


@pytest.mark.parametrize(
    ("elapsed", "pace_s"),
    [
        ((9.0, 10.0, 11.0, 12.0, 13.0), 1.0),  # the first of five iterations warms up
        ((1.0, 2.0, 3.0), 1.0),
        ((100.0, 100.5), 0.5),
    ],
)
def test_the_steady_state_leaves_out_the_first_fifth(
    elapsed: tuple[float, ...], pace_s: float, tmp_path: Path
) -> None:
    (tmp_path / "log").write_text(json.dumps(entries(*elapsed)))
    spec = ObjectiveSpec(statistic="steady")
    assert report(spec).result(ended(tmp_path)) == Finished(pace_s, len(elapsed))


@pytest.mark.parametrize("elapsed", [(1.0,), (1.0, 1.0, 1.0)])
def test_a_log_without_a_steady_state(elapsed: tuple[float, ...], tmp_path: Path) -> None:
    (tmp_path / "log").write_text(json.dumps(entries(*elapsed)))
    ending = report(ObjectiveSpec(statistic="steady")).result(ended(tmp_path))
    assert isinstance(ending, Failed) and ending.kind is FailureKind.BAD_LOG
    assert "has no steady state: no two entries with time between them" in ending.reason
