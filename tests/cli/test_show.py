"""``tune show``, ``tune studies`` and the end of ``tune``: the same study in words and as JSON."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from tests import study_samples as samples
from tests.cli.conftest import Tune, store_study
from tests.study_samples import OMP, SPEC, capped_study, launched, searched, setting, stopped, study
from tuner.cli import printed
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
    Setting,
    Verdict,
    Window,
)
from tuner.results.report import facts
from tuner.results.study_view import StudyView
from tuner.store import Store


def test_the_latest_study_is_shown(tune: Tune, database: Path) -> None:
    done = tune("show", "--storage", str(database))
    assert (done.code, done.err) == (0, "")
    for words in (
        "Study mnist: finished",
        "2 ranks on node1, Open MPI 5.0.11",
        "best:      omp_threads=1 iterator_workers=1 communicator=naive",
        "2.31 times faster than your defaults (3.60 s against 8.32 s, 1 run each; not confirmed)",
        "omp_threads=1: took effect",
        "opencv_threads: the program does not load OpenCV",
        "launch 5 (omp_threads=1 iterator_workers=1 communicator=flat): crashed",
        "0005/output.log",
        "your defaults",
    ):
        assert words in done.out, words


def test_the_settings_are_aligned_without_a_terminal(tune: Tune, database: Path) -> None:
    lines = tune("show", "--storage", str(database)).out.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("  time"))
    titles = "time faster runs omp_threads iterator_workers communicator"
    assert lines[start].split() == titles.split()
    assert lines[start + 1].split() == ["3.60", "s", "2.31x", "1", "1", "1", "naive"]
    assert lines[start + 5].startswith("failed")


def test_a_study_is_shown_as_json(tune: Tune, database: Path) -> None:
    document = json.loads(tune("show", "mnist", "--json", "--storage", str(database)).out)
    assert document["schema"] == "tuner.show/1"
    assert document["result"]["ratio"] == pytest.approx(2.31)
    assert [row["elapsed_s"] for row in document["measurements"]] == [3.6, 3.9, 7.1, 8.316, None]
    assert document["failures"][0]["log_tail"].startswith("Traceback")
    assert document["left_out"] == {"opencv_threads": "the program does not load OpenCV"}


ONE = Knob("communicator", Choice(("naive",)), Flag("--communicator"))


@pytest.mark.parametrize(
    ("fixed", "verdict", "told"),
    [
        (BASELINE, Verdict.NOT_OBSERVABLE, False),
        (BASELINE, Verdict.HONOURED, False),
        (BASELINE, Verdict.OVERRIDDEN, True),
        (setting(communicator="naive"), Verdict.NOT_OBSERVABLE, True),
    ],
)
def test_a_knob_without_a_choice_is_told_of_only_where_it_matters(
    fixed: Setting, verdict: Verdict, told: bool
) -> None:
    spec = dataclasses.replace(SPEC, knobs=(OMP, ONE), fixed=fixed)
    data = study({BASELINE: 3.0, setting(omp_threads=1, communicator="naive"): 1.0}, spec)
    best = data.records[-1]
    seen = (*best.outcome.effects[1:], Effect("communicator", "naive", None, verdict, "why"))
    outcome = dataclasses.replace(best.outcome, effects=seen)
    records = (*data.records[:-1], dataclasses.replace(best, outcome=outcome))
    lines = facts.effect_lines(dataclasses.replace(data, records=records))
    assert any("communicator" in line for line in lines) is told
    assert any("omp_threads=1" in line for line in lines)


@pytest.mark.parametrize("command", ["show", "studies", "export", "dashboard"])
def test_no_study_yet_says_how_to_make_one(tune: Tune, tmp_path: Path, command: str) -> None:
    Store.open(f"sqlite:///{tmp_path}/empty.db", create=True).close()
    done = tune(command, "--storage", "empty.db")
    assert done.code == 2
    assert "there is no study in empty.db yet" in done.err
    assert "tune --mpi-procs" in done.err


@pytest.mark.parametrize("command", ["show", "studies", "export", "dashboard"])
def test_no_database_yet_is_one_error(tune: Tune, command: str) -> None:
    done = tune(command)
    assert done.code == 2
    assert "studies/tune.db" in done.err
    assert "Traceback" not in done.err


def test_the_variable_names_the_database(
    tune: Tune, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNE_STORAGE", str(database))
    assert "Study mnist" in tune("show").out


def test_a_study_is_deleted_with_its_trials_and_folders(tune: Tune, database: Path) -> None:
    where = ("--storage", str(database))
    with Store.open(f"sqlite:///{database}", create=False) as store:
        (database.parent / "mnist" / "0001").mkdir(parents=True)
    done = tune("studies", "--delete", "mnist", *where)
    assert (done.code, done.out) == (0, "")
    assert "deleted the study mnist" in done.err
    with Store.open(f"sqlite:///{database}", create=False) as store:
        assert not store.has("mnist")
    assert "no study mnist" in tune("studies", "--delete", "mnist", *where).err


def test_studies_are_listed(tune: Tune, database: Path) -> None:
    done = tune("studies", "--storage", str(database))
    head, row = done.out.splitlines()
    titles = "study state best baseline faster settings best setting"
    assert head.split() == titles.split()
    assert row.split()[:7] == ["mnist", "finished", "3.60", "s", "8.32", "s", "2.31x?"]
    assert done.err == f"in {database}\n"


@pytest.mark.parametrize(
    ("data", "faster"),
    [
        (samples.faster(), "2.33x (2.31 to 2.35)"),
        (samples.at_least(), ">= 2.50x"),
        (samples.no_gain(), "no gain"),
        (samples.not_pursued(), "no gain"),
        (samples.failing(), "defaults fail"),
        (launched(searched(stopped(10.8, 30.0))), ""),
    ],
)
def test_the_list_says_what_is_proven(
    tune: Tune, tmp_path: Path, data: StudyView, faster: str
) -> None:
    path = store_study(tmp_path / "x.db", data)
    head, row = tune("studies", "--storage", str(path)).out.splitlines()
    start, end = head.index("baseline  ") + len("baseline  "), head.index("  settings")
    assert row[start:end].strip() == faster


def test_the_list_as_json_has_what_is_proven(tune: Tune, tmp_path: Path) -> None:
    path = store_study(tmp_path / "x.db", samples.at_least())
    (found,) = json.loads(tune("studies", "--json", "--storage", str(path)).out)["studies"]
    assert found["conclusion"] == "faster"
    assert (found["finding"]["low"], found["finding"]["high"]) == (pytest.approx(2.5), None)


def test_the_end_of_a_run_names_the_next_commands(capsys: pytest.CaptureFixture[str]) -> None:
    printed.print_result(study(), summary=True)
    printed.print_next(study(), "my db")
    out = capsys.readouterr().out
    assert "1 launch: crashed: rank 1 ended with status 1" in out
    for line in (
        "tune export mnist --storage 'my db' --format sh -o job.sh",
        "tune show mnist --storage 'my db'",
        "tune dashboard --storage 'my db'",
        "tune exec mnist --storage 'my db' -- COMMAND",
    ):
        assert f"  {line}" in out


def test_no_password_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    printed.print_next(study(), "postgresql://me:s3cret@host/tune")
    out = capsys.readouterr().out
    assert "s3cret" not in out
    assert "--storage 'postgresql://me:***@host/tune'" in out


def test_a_study_that_failed_altogether_can_be_shown(tune: Tune, tmp_path: Path) -> None:
    path = store_study(tmp_path / "x.db", study({BASELINE: None}))
    done = tune("show", "--storage", str(path))
    assert done.code == 0
    assert "crashed" in done.out
    assert SPEC.name in done.out
    document = json.loads(tune("show", "--json", "--storage", str(path)).out)
    assert (document["result"]["best"], document["effects"]) == (None, [])


CAPPED = "omp_threads: 3 and more come to 2 here (capped: the library runs no more than 2 here)"


def test_a_knob_that_is_not_tuned_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    data = capped_study()
    line = "communicator is not tuned: why"
    pooling = dataclasses.replace(
        data.pooling, dropped=(("communicator", "why"),), notes=("omp_threads was odd",)
    )
    result = dataclasses.replace(data.result, notes=(line, "omp_threads was odd", "another"))
    shown = dataclasses.replace(data, pooling=pooling, result=result)
    printed.print_result(shown, summary=True)
    out = capsys.readouterr().out
    assert out.count(line) == out.count("omp_threads was odd") == 1
    assert out.index(line) < out.index("\nNotes\n  another\n")


@pytest.mark.parametrize("reason", ["", "nothing: 1 launch failed, rank 1 ended with status 1"])
def test_why_the_defaults_failed_is_told_once(
    capsys: pytest.CaptureFixture[str], reason: str
) -> None:
    data = study({BASELINE: None})
    result = dataclasses.replace(data.result, reason=reason)
    printed.print_result(dataclasses.replace(data, result=result), summary=False)
    assert capsys.readouterr().out.count("rank 1 ended with status 1") == 1


def test_a_window_is_called_one(capsys: pytest.CaptureFixture[str]) -> None:
    data = study()
    (number,) = [n for n, r in enumerate(data.records) if isinstance(r.outcome.ending, Failed)]
    failed = data.records[number]
    window = Window(2, ("omp_threads",), 0.0, 0.1, 1, 10, 0.1, 0.01, 5.0)
    outcome = dataclasses.replace(
        failed.outcome, window=window, exclusion=Exclusion(ExclusionKind.JOB_DRIFTED, "it drifted")
    )
    again = dataclasses.replace(failed, number=12, outcome=outcome)
    only = dataclasses.replace(data, records=(again,))
    both = dataclasses.replace(data, records=(*data.records, again))
    for each in (only, both):
        printed.print_failures(each)
        printed.print_excluded(each)
        printed.print_result(each, summary=True)
    out = capsys.readouterr().out
    assert "Failed windows\n  window 12 (" in out
    assert "Windows excluded\n  window 12 (" in out
    assert "Failed windows (`tune show` has the logs)\n  1 window: crashed" in out
    assert f"Failed launches and windows\n  launch {failed.number} (" in out
    assert "  1 launch: crashed: rank 1 ended with status 1\n  1 window: crashed" in out


def test_launches_that_were_set_aside_are_listed(tune: Tune, tmp_path: Path) -> None:
    data = study()
    why = "other processes used 3.1 of 4 cores, above all pid 6263 (python)"
    first = data.records[1]
    aside = dataclasses.replace(first.outcome, exclusion=Exclusion(ExclusionKind.INTERFERENCE, why))
    records = (*data.records, dataclasses.replace(first, number=9, outcome=aside))
    path = store_study(tmp_path / "tune.db", dataclasses.replace(data, records=records))
    shown = tune("show", "--storage", str(path)).out
    assert "Launches excluded\n  launch 9 (" in shown
    assert f"): {why}" in " ".join(shown.split())
    assert "1 launch was excluded (number 9: other" in shown
    document = json.loads(tune("show", "--json", "--storage", str(path)).out)
    (row,) = document["set_aside"]
    assert (row["number"], row["disturbed"]) == (9, why)


#: What would set a terminal's title, make lines of its own, and turn text around.
STEERING = "a\x1b]0;owned\x07b\nerror: c\u202ed\x9b2Je"


@pytest.mark.parametrize("terminal", [False, True])
def test_foreign_text_cannot_steer_the_terminal(
    tune: Tune, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, terminal: bool
) -> None:
    hostile = Failed(FailureKind.CRASHED, STEERING, STEERING)
    knob = Knob("own", Choice((STEERING, "x")), Env(("OWN",)), help=STEERING)
    spec = dataclasses.replace(SPEC, knobs=(*SPEC.knobs, knob), left_out=(("y", STEERING),))
    chosen = setting(omp_threads=1, own=STEERING)
    data = study({BASELINE: 8.0, chosen: 3.0, setting(own="x"): None}, spec)
    failed = dataclasses.replace(data.records[2].outcome, ending=hostile)
    records = (*data.records[:2], dataclasses.replace(data.records[2], outcome=failed))
    path = str(store_study(tmp_path / "x.db", dataclasses.replace(data, records=records)))
    if terminal:
        monkeypatch.setattr("tuner.cli.console.is_live", lambda _: True)
        monkeypatch.setenv("NO_COLOR", "1")
    for words in (("show",), ("studies",), ("explain",), ("exec", "--", "gone")):
        done = tune(words[0], "--storage", path, *words[1:])
        assert "owned" in done.out + done.err or words[0] in ("explain", "exec")
        text = done.out + done.err
        bad = {each for each in text if not each.isprintable() and each != "\n"}
        assert not bad, (words, bad)
        assert "\nerror: c" not in text
