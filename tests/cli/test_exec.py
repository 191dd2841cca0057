"""``tune exec``: which word is the study, and what the command is given."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.conftest import Tune
from tests.study_samples import study
from tuner.cli.exec import not_carried, replace, split
from tuner.model.errors import UsageError
from tuner.store import Store


@pytest.fixture
def store(database: Path) -> Store:
    return Store.open(f"sqlite:///{database}", create=False)


def test_the_study_stands_before_the_dashes(store: Store) -> None:
    assert split(("mnist",), ("env",), store) == ("mnist", ("env",))
    assert split((), ("mnist", "x"), store) == (None, ("mnist", "x"))


def test_without_dashes_a_studys_name_is_a_study(store: Store) -> None:
    assert split(("mnist", "env", "-i"), None, store) == ("mnist", ("env", "-i"))
    assert split(("env", "mnist"), None, store) == (None, ("env", "mnist"))


@pytest.mark.parametrize(
    ("words", "rest"), [((), None), (("mnist",), None), (("mnist",), ()), (("a", "b"), ("c",))]
)
def test_no_command_is_refused(
    store: Store, words: tuple[str, ...], rest: tuple[str, ...] | None
) -> None:
    with pytest.raises(UsageError):
        split(words, rest, store)


def test_placeholders_are_replaced_and_other_braces_stay() -> None:
    argv = ("-j{n}", "{n}{m}", "{other}", "${HOME}", "{{n}}", "{}")
    assert replace(argv, {"n": 2, "m": "{n}"}) == ("-j2", "2{n}", "{other}", "${HOME}", "{2}", "{}")


@given(st.lists(st.text()))
def test_a_command_without_knobs_is_left_alone(argv: list[str]) -> None:
    assert replace(tuple(argv), {}) == tuple(argv)


def test_what_the_command_does_not_get_is_said() -> None:
    (line,) = not_carried(study(), ("train", "-j{iterator_workers}", "{other}"))
    assert line.startswith("the command does not get communicator=naive")
    assert "write {communicator} where" in line
    assert not_carried(study(), ("{iterator_workers}", "{communicator}", "{omp_threads}")) == ()


@pytest.mark.system
def test_a_warning_goes_before_the_command(tune: Tune, database: Path) -> None:
    done = tune("exec", "--storage", str(database), "--", "sh", "-c", "echo started >&2")
    lines = done.err.splitlines()
    assert lines[-1] == "started"
    assert [line.split()[:2] for line in lines[:-1]] == [["tune:", "warning:"]] * 2


@pytest.mark.system
def test_the_command_runs_with_the_setting(tune: Tune, database: Path) -> None:
    program = "import os, sys; print(os.environ['OMP_NUM_THREADS'], sys.argv[1:]); sys.exit(7)"
    done = tune("exec", "--storage", str(database), "--", sys.executable, "-c", program,
                "-j{iterator_workers}")  # fmt: skip
    assert (done.code, done.out) == (7, "1 ['-j1']\n")


@pytest.mark.system
def test_a_missing_program_is_one_error(tune: Tune, database: Path) -> None:
    done = tune("exec", "--storage", str(database), "--", "no-such-program")
    assert done.code == 2
    assert done.err.startswith("tune: error: there is no program no-such-program\n")
