"""``tune show``, ``tune studies`` and the end of ``tune``: the same study in words and as JSON."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
from pathlib import Path

import pytest

from tests import study_samples as samples
from tests.cli.conftest import Tune
from tests.study_samples import (
    FAST,
    OMP,
    SLOW,
    SPEC,
    launched,
    measured_live,
    searched,
    setting,
    study,
)
from tuner.cli import options, printed
from tuner.model import (
    BASELINE,
    Choice,
    Effect,
    Env,
    Exclusion,
    ExclusionKind,
    Failed,
    FailureKind,
    Flag,
    Knob,
    LaunchRecord,
    Purpose,
    Setting,
    Verdict,
)
from tuner.results import words
from tuner.results.explain import explain
from tuner.results.explain.explained_runs import median_run
from tuner.results.exporters import json as as_json
from tuner.results.exporters import tables
from tuner.results.study_view import StudyView
from tuner.store import Store


def shown(data: StudyView, capsys: pytest.CaptureFixture[str], *, summary: bool = False) -> str:
    printed.print_result(data, summary=summary)
    printed.print_settings(data)
    return capsys.readouterr().out


def changed(record: LaunchRecord, number: int | None = None, **outcome: object) -> LaunchRecord:
    """The launch with another outcome, and maybe another number."""
    other = dataclasses.replace(record.outcome, **outcome)  # type: ignore[arg-type]
    return dataclasses.replace(record, outcome=other, number=number or record.number)


# --- a study -------------------------------------------------------------------------------


def test_the_latest_study_is_shown(
    tune: Tune, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = tune("show", "--storage", str(database))
    assert (done.code, done.err) == (0, "")
    assert "Study mnist: finished" in done.out  # the rest is in the snapshots
    monkeypatch.setenv("TUNE_STORAGE", str(database))
    assert tune("show").out == done.out


def test_a_study_is_shown_as_json(tune: Tune, database: Path) -> None:
    document = json.loads(tune("show", "mnist", "--json", "--storage", str(database)).out)
    assert document["schema"] == "tuner.show/2"
    assert document["result"]["ratio"] == pytest.approx(2.31)
    assert [row["elapsed_s"] for row in document["measurements"]] == [3.6, 3.9, 7.1, 8.316, None]
    assert document["failures"][0]["log_tail"].startswith("Traceback")
    assert document["left_out"] == {"opencv_threads": "the program does not load OpenCV"}


def test_a_core_budget_says_what_it_leaves_out(tune_on: Tune) -> None:
    data = launched(searched(), spec=dataclasses.replace(SPEC, oversubscription=2.0))
    block = tune_on(data, "show").out.partition("\nCore budget\n")[2].splitlines()
    assert "ask for 4 to 16 cores" in block[0]
    assert block[1].startswith("  not tried: 20 of the settings")
    assert block[1].endswith("(--oversubscribe 2)")
    lines = json.loads(tune_on(data, "show", "--json").out)["core_budget"]
    assert lines == [line.strip() for line in block[:2]]


def test_no_number_is_parted_from_its_unit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tuner.cli.console.is_live", lambda _: True)
    monkeypatch.setenv("NO_COLOR", "1")
    for width in range(40, 120, 9):
        monkeypatch.setenv("COLUMNS", str(width))
        for data in (samples.faster(), samples.at_least(), samples.no_gain()):
            printed.print_result(data, summary=False)
            best = capsys.readouterr().out.partition("  best: ")[2].partition("\n\n")[0]
            assert not re.search(r"\d\n *(%|s|min|pairs?|runs?)(?!\w)", best)
            assert max(map(len, best.splitlines())) <= max(width, 60)


@pytest.mark.parametrize(
    ("best", "defaults", "line"),
    [
        (0.12345, 0.13, "  final loss 0.1235, with your defaults 0.13\n"),
        (0.5, None, "final loss 0.5; your defaults never ran to their end"),
        (None, 0.13, ""),
    ],
)
def test_the_final_loss_of_both_is_shown(
    capsys: pytest.CaptureFixture[str], best: float | None, defaults: float | None, line: str
) -> None:
    data = samples.faster()
    assert data.result.candidate is not None and data.result.baseline is not None
    candidate, baseline = (
        dataclasses.replace(
            each, samples=tuple(dataclasses.replace(run, loss=loss) for run in each.samples)
        )
        for each, loss in ((data.result.candidate, best), (data.result.baseline, defaults))
    )
    result = dataclasses.replace(data.result, candidate=candidate, baseline=baseline)
    text = shown(dataclasses.replace(data, result=result), capsys)
    assert line in text
    assert ("final loss" in text) == bool(line)


ONE = Knob("communicator", Choice(("naive",)), Flag("--communicator"))


@pytest.mark.parametrize(
    ("fixed", "verdict", "matters"),
    [
        (BASELINE, Verdict.NOT_OBSERVABLE, False),
        (BASELINE, Verdict.HONOURED, False),
        (BASELINE, Verdict.OVERRIDDEN, True),
        (setting(communicator="naive"), Verdict.NOT_OBSERVABLE, True),
    ],
)
def test_a_knob_without_a_choice_is_shown_only_if_it_matters(
    fixed: Setting, verdict: Verdict, matters: bool
) -> None:
    spec = dataclasses.replace(SPEC, knobs=(OMP, ONE), fixed=fixed)
    data = study({BASELINE: 3.0, setting(omp_threads=1, communicator="naive"): 1.0}, spec)
    *others, best = data.records
    effect = Effect("communicator", "naive", None, verdict, "why")
    best = changed(best, effects=(*best.outcome.effects[1:], effect))
    lines = words.effect_lines(dataclasses.replace(data, records=(*others, best)))
    assert any("communicator" in line for line in lines) is matters
    assert any("omp_threads=1" in line for line in lines)


@pytest.mark.parametrize(
    ("default", "text"),
    [
        (None, "omp_threads=1 (fixed: communicator=naive)"),
        ("naive", "omp_threads=1"),  # what the program does by itself
    ],
)
def test_a_knob_without_a_choice_is_no_part_of_what_was_tuned(
    default: str | None, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = dataclasses.replace(SPEC, knobs=(OMP, dataclasses.replace(ONE, default=default)))
    data = study({BASELINE: 3.0, setting(omp_threads=1, communicator="naive"): 1.0}, spec)
    printed.print_result(data, summary=False)
    assert f"best:      {text}\n" in capsys.readouterr().out


@pytest.mark.parametrize("reason", ["", "nothing: 1 launch failed, rank 1 ended with status 1"])
def test_the_reason_of_failed_defaults_stands_once(
    capsys: pytest.CaptureFixture[str], reason: str
) -> None:
    data = study({BASELINE: None})
    result = dataclasses.replace(data.result, reason=reason)
    printed.print_result(dataclasses.replace(data, result=result), summary=False)
    assert capsys.readouterr().out.count("rank 1 ended with status 1") == 1


def test_launches_that_were_excluded_are_listed(tune_on: Tune) -> None:
    data = study()
    why = "other processes used 3.1 of 4 cores, above all pid 6263 (python)"
    aside = changed(data.records[1], 9, exclusion=Exclusion(ExclusionKind.OTHER_HOST, why))
    data = dataclasses.replace(data, records=(*data.records, aside))
    text = tune_on(data, "show").out
    assert "Launches excluded\n  launch 9 (" in text
    assert f"): {why}" in " ".join(text.split())
    assert "1 launch was excluded (number 9: other" in text
    (row,) = json.loads(tune_on(data, "show", "--json").out)["excluded"]
    assert (row["number"], row["excluded"]) == (9, why)


#: What would set a terminal's title, make lines of its own, and turn text around.
STEERING = "a\x1b]0;owned\x07b\nerror: c\u202ed\x9b2Je"


@pytest.mark.parametrize("terminal", [False, True])
def test_foreign_text_cannot_steer_the_terminal(
    tune_on: Tune, monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    knob = Knob("own", Choice((STEERING, "x")), Env(("OWN",)), help=STEERING)
    spec = dataclasses.replace(SPEC, knobs=(*SPEC.knobs, knob), left_out=(("y", STEERING),))
    chosen = setting(omp_threads=1, own=STEERING)
    data = study({BASELINE: 8.0, chosen: 3.0, setting(own="x"): None}, spec)
    hostile = Failed(FailureKind.CRASHED, STEERING, STEERING)
    records = (*data.records[:2], changed(data.records[2], ending=hostile))
    if terminal:
        monkeypatch.setattr("tuner.cli.console.is_live", lambda _: True)
        monkeypatch.setenv("NO_COLOR", "1")
    for line in (("show",), ("studies",), ("explain",), ("exec", "--", "gone")):
        done = tune_on(dataclasses.replace(data, records=records), *line)
        text = done.out + done.err
        assert "owned" in text or line[0] in ("explain", "exec")
        bad = {each for each in text if not each.isprintable() and each != "\n"}
        assert not bad, (line, bad)
        assert "\nerror: c" not in text


# --- all studies ---------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["show", "studies", "export", "dashboard"])
def test_no_study_and_no_database_yet_are_one_error(tune: Tune, command: str) -> None:
    done = tune(command)
    assert done.code == 2
    assert "studies/tune.db" in done.err and "Traceback" not in done.err
    Store.open("sqlite:///empty.db", create=True).close()
    done = tune(command, "--storage", "empty.db")
    assert done.code == 2
    assert "there is no study in empty.db yet" in done.err
    assert "tune --mpi-procs" in done.err


def test_a_study_is_deleted_with_its_trials_and_folders(tune: Tune, database: Path) -> None:
    delete = ("studies", "--delete", "mnist", "--storage", str(database))
    (database.parent / "mnist" / "0001").mkdir(parents=True)
    done = tune(*delete)
    assert (done.code, done.out) == (0, "")
    assert "deleted the study mnist" in done.err
    with Store.open(f"sqlite:///{database}", create=False) as store:
        assert not store.has("mnist")
    assert "no study mnist" in tune(*delete).err


def test_studies_are_listed(tune: Tune, database: Path) -> None:
    done = tune("studies", "--storage", str(database))
    head, row = done.out.splitlines()
    titles = "study state best baseline faster settings best setting"
    assert " ".join(head.split()) == titles
    assert row.split()[:7] == ["mnist", "finished", "3.60", "s", "8.32", "s", "2.31x?"]
    assert done.err == f"in {database}\n"


# --- the end of a run ----------------------------------------------------------------------


def ending(monkeypatch: pytest.MonkeyPatch, data: StudyView) -> None:
    """Let ``tune run`` come to this result at once."""
    monkeypatch.setattr(options, "spec_of", lambda *_: SPEC)
    monkeypatch.setattr("tuner.study.tuning.tune", lambda *_, **__: data.result)


def test_nothing_measured_is_an_error_with_its_line(
    tune_on: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = study({BASELINE: None})
    ending(monkeypatch, data)
    done = tune_on(data, "-q")
    assert done.code == 3
    assert "Study mnist" in done.out
    assert done.err.count("tune: error: ") == 1
    assert "  next: " in done.err


def test_the_next_commands_name_a_database_that_was_typed_only(
    tune: Tune, monkeypatch: pytest.MonkeyPatch, database: Path
) -> None:
    ending(monkeypatch, study())
    typed = tune("-q", "--storage", str(database))
    assert (typed.code, typed.err) == (0, "")
    assert f"tune show mnist --storage '{database}'" in typed.out
    monkeypatch.setenv("TUNE_STORAGE", str(database))
    assert "--storage" not in tune("-q").out


# --- settings that were measured in windows of running jobs ----------------------------------


def test_windows_jobs_and_launches_are_counted_apart() -> None:
    data = measured_live()
    assert (data.result.launches, data.result.windows, data.result.jobs) == (20, 6, 3)
    rows = list(csv.DictReader(io.StringIO(tables.csv(data).text)))
    assert [(row["runs"], row["windows"]) for row in rows][:2] == [("8", "2"), ("1", "1")]
    document = json.loads(as_json.export(data).text)
    assert (document["result"]["windows"], document["result"]["jobs"]) == (6, 3)
    first, second = document["launches"][0]["window"], document["launches"][1]["window"]
    assert first is None
    assert (second["job"], second["live"], second["started_s"]) == (2, ["omp_threads"], 2.0)


def test_a_launch_is_explained_and_a_window_only_if_there_is_none() -> None:
    data = measured_live()
    canonical = data.pooling.canonical
    own = median_run(data.records, FAST, canonical)
    assert own is not None and own.purpose is Purpose.CONFIRM
    window = median_run(data.records, SLOW, canonical)
    assert window is not None and window.number == 4
    gap, inside = explain(window.outcome, SLOW, SPEC, window.machine).gaps
    assert "a window of job 2" in gap and "--live off" in gap
    assert "not seen from inside (a window of a running job)" in inside
