"""``tune show``, ``tune studies`` and the end of ``tune``: the same study in words and as JSON."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from tests import study_samples
from tests.cli.conftest import Tune
from tests.study_samples import SPEC, launched, searched, setting, stopped, study, with_outcome
from tuner.cli import click_options, printed
from tuner.model import BASELINE, Choice, Env, Exclusion, ExclusionKind, Failed, FailureKind, Knob
from tuner.store.store import Store


def test_the_latest_is_shown(tune: Tune, database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = tune("show", "--storage", str(database))
    assert (done.code, done.err) == (0, "")
    assert "Study mnist: finished" in done.out  # the rest is in the snapshots
    monkeypatch.setenv("TUNE_STORAGE", str(database))
    assert tune("show").out == done.out


def test_a_core_budget_says_what_it_leaves_out(tune_on: Tune) -> None:
    data = launched(searched(), spec=dataclasses.replace(SPEC, oversubscription=2.0))
    block = tune_on(data, "show").out.partition("\nCore budget\n")[2].splitlines()
    assert "ask for 4 to 16 cores" in block[0]
    assert block[1] == (
        "  not tried: settings that ask for more than 8, 2 times as many (--oversubscribe 2)"
    )
    lines = json.loads(tune_on(data, "show", "--json").out)["core_budget"]
    assert lines == [line.strip() for line in block[:2]]


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
    omp, _, communicator = SPEC.knobs
    one = dataclasses.replace(communicator, domain=Choice(("naive",)), default=default)
    spec = dataclasses.replace(SPEC, knobs=(omp, one))
    data = study({BASELINE: 3.0, setting(omp_threads=1, communicator="naive"): 1.0}, spec)
    printed.print_result(data, summary=False)
    assert f"best:      {text}\n" in capsys.readouterr().out


def test_launches_that_were_excluded_are_in_the_json(tune_on: Tune) -> None:
    data = study()
    why = Exclusion(ExclusionKind.OTHER_HOST, "other processes used 3.1 of 4 cores")
    aside = dataclasses.replace(with_outcome(data.records[1], exclusion=why), number=9)
    data = dataclasses.replace(data, records=(*data.records, aside))
    (row,) = json.loads(tune_on(data, "show", "--json").out)["excluded"]
    assert (row["number"], row["excluded"]) == (9, why.text)


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
    records = (*data.records[:2], with_outcome(data.records[2], ending=hostile))
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


def test_a_baseline_that_was_only_projected_is_listed(tune_on: Tune) -> None:
    done = tune_on(launched(searched(defaults=stopped(4.1, 9.8))), "studies")
    assert done.out.splitlines()[1].split()[2:6] == ["3.60", "s", "~9.80", "s"]


def test_nothing_measured_is_one_error(tune_on: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    data = study({BASELINE: None})
    monkeypatch.setattr(click_options, "spec_of", lambda *_: SPEC)
    monkeypatch.setattr("tuner.study.tuning.tune", lambda *_, **__: data.result)
    done = tune_on(data, "-q")
    assert done.code == 3
    assert "Study mnist" in done.out
    assert done.err.count("tune: error: ") == 1
    assert "  next: " in done.err


@pytest.mark.parametrize("command", ["show", "studies", "explain"])
def test_every_kind_of_study_is_printed_by_the_schema(tune_on: Tune, command: str) -> None:
    """The fixture compares what is printed with the schema."""
    for name, data in study_samples.everything().items():
        if name != "hostile":  # its name is none that a database takes
            done = tune_on(data, command, "--json")
            assert done.code == 0 or (command, name) == ("explain", "nothing"), done.err
