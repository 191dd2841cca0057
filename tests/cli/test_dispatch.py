"""argv before click, and what stands around every command."""

from __future__ import annotations

import dataclasses
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tuner
from tests.cli.conftest import Done, Tune
from tests.light_trainer import MAIN
from tuner.cli import main as entry
from tuner.cli.app import COMMANDS
from tuner.cli.base import split_tail
from tuner.model import Result, StudyState
from tuner.model.errors import (
    BusyError,
    LimitReachedError,
    NothingMeasuredError,
    TunerError,
    UsageError,
)


@given(
    st.lists(st.text(max_size=4).filter(lambda word: word != "--")), st.lists(st.text(max_size=4))
)
def test_argv_is_cut_at_the_first_dashes_only(before: list[str], after: list[str]) -> None:
    assert split_tail(before) == (before, None)
    assert split_tail([*before, "--", *after]) == (before, tuple(after))


Words = tuple[dict[str, Any], tuple[str, ...] | None]


def seen_by_run(monkeypatch: pytest.MonkeyPatch, tune: Tune, *args: str) -> Words:
    """The options and the program that ``tune run`` takes from a command line."""
    spec_of = Mock(side_effect=UsageError("enough"))
    monkeypatch.setattr("tuner.cli.options.spec_of", spec_of)
    assert tune(*args).err == "tune: error: enough\n"
    options, words = spec_of.call_args.args
    return options, words


def test_the_program_may_be_called_like_a_command(
    monkeypatch: pytest.MonkeyPatch, tune: Tune
) -> None:
    _, words = seen_by_run(monkeypatch, tune, "-n", "2", "--", "export", "--trials", "--", "x")
    assert words == ("export", "--trials", "--", "x")


@pytest.mark.parametrize(
    ("args", "wrong", "meant"),
    [
        (("--trails", "5"), "--trails", "did you mean --trials?"),
        (("--mpi-proc", "5"), "--mpi-proc", "did you mean --mpi-procs?"),
        (("show", "--jsn"), "--jsn", "did you mean --json?"),
        (("exprot",), "exprot", "did you mean `tune export`?"),
        (("train.py",), "train.py", "after `--`: tune -- train.py"),
        (("--trials",), "--trials", "--help"),
        (("--trials", "many"), "many", "--help"),
        (("export", "a", "b"), "b", "--help"),
        (("-n", "2", "python", "train.py"), "python train.py", "after `--`: tune -n 4 -- python"),
        (("-n", "2", "python", "x.py", "--epoch", "1"), "--epoch", "after `--`: tune -n 4 --"),
        (("completion", "tcsh"), "tcsh", "--help"),
        (("export", "--format", "yaml"), "yaml", "sh, env, json"),
        (("--",), "no program after", "tune -- python"),
    ],
)
def test_a_slip_is_one_error_with_the_next_step(
    tune: Tune, args: tuple[str, ...], wrong: str, meant: str
) -> None:
    done = tune(*args)
    assert done.code == 2
    assert done.out == ""
    first, *hints = done.err.splitlines()
    assert first.startswith("tune: error: ") and wrong in first
    assert hints[0].startswith("  next: ") and meant in "".join(hints)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_closed_stream_changes_no_exit_code(tmp_path: Path, closed: str) -> None:
    """And no file of ours, a database perhaps, takes the place of the stream."""
    program = (
        "import os, sys; from tuner.cli.main import main; code = main(['--bogus']);"
        "sys.exit(code if os.open('.', os.O_RDONLY) > 2 else 99)"
    )
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 2
    assert ("unknown option: --bogus" in done.stderr) is (closed != "2>&-")


def test_help_names_every_command_and_option_with_examples(tune: Tune) -> None:
    done = tune("--help")
    assert (done.code, done.err) == (0, "")
    options = ("--mpi-procs", "--trial-limit", "--storage", "--budget", "--no-confirm")
    for word in (*COMMANDS, *options, "Examples:", "130"):
        assert word in done.out
    assert tune("-h").out == done.out
    assert tune("--version").out == f"tune {tuner.__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(tune: Tune, command: str) -> None:
    done = tune(command, "--help")
    assert done.code == 0
    assert done.out.startswith(f"Usage: tune {command}")
    assert "Examples:" in done.out


@pytest.mark.parametrize(
    ("args", "env"),
    [
        (["--help"], {}),
        (["--version"], {}),
        ([], {"_TUNE_COMPLETE": "bash_complete", "COMP_WORDS": "tune --", "COMP_CWORD": "1"}),
        ([], {"_TUNE_COMPLETE": "bash_complete", "COMP_WORDS": "tune show ", "COMP_CWORD": "2"}),
    ],
)
def test_help_and_completion_load_nothing_heavy(
    args: list[str], env: dict[str, str], tmp_path: Path
) -> None:
    program = (
        "import sys; from tuner.cli.main import main; main(sys.argv[1:]);"
        "print(*{name.split('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *args],
        env={**os.environ, **env},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    heavy = "rich pydantic optuna sqlalchemy scipy numpy plotly yaml psutil"
    assert not set(heavy.split()) & set(done.stderr.split())


@pytest.fixture
def tune_that_raises(tune: Tune, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tune:
    """Runs a command that ends with an error; a report of a defect goes to an empty folder."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def call(error: BaseException) -> Done:
        monkeypatch.setattr(entry, "_run", Mock(side_effect=error))
        return tune()

    return call


@pytest.mark.parametrize(
    ("error", "code"),
    [(UsageError, 2), (NothingMeasuredError, 3), (LimitReachedError, 4), (BusyError, 5)],
)
def test_every_error_has_its_exit_code(
    tune_that_raises: Tune, error: type[TunerError], code: int
) -> None:
    assert tune_that_raises(error("m", "h")) == (code, "", "tune: error: m\n  next: h\n")


def test_a_message_cannot_steer_the_terminal(tune_that_raises: Tune) -> None:
    err = tune_that_raises(UsageError("\x1b]0;x\x07 \udcff é", "")).err
    assert not {"\x1b", "\x07"} & set(err)
    assert "é" in err


def test_ctrl_c_says_how_to_go_on(tune_that_raises: Tune) -> None:
    class Stopped(KeyboardInterrupt):
        signal_number = signal.SIGTERM
        result = Result("x", "db", StudyState.INTERRUPTED, "", None, None, None, 3, 5, 0)

    assert "interrupted; nothing was measured yet; the same" in tune_that_raises(Stopped()).err
    Stopped.result = dataclasses.replace(Stopped.result, launches_measured=3)
    done = tune_that_raises(Stopped())
    assert done.code == 143
    assert done.err.count("\n") == 2  # the terminal shows ^C on a line of its own
    assert "3 measurements kept; the same command continues" in done.err
    assert tune_that_raises(KeyboardInterrupt()).code == 130


def test_a_defect_leaves_its_traceback_in_one_file(
    monkeypatch: pytest.MonkeyPatch, tune_that_raises: Tune, tmp_path: Path
) -> None:
    path = tmp_path / f"tune-error-{os.getuid()}.txt"
    (tmp_path / "precious").write_text("mine")
    path.symlink_to("precious")
    for text in ("oh", "ah"):
        done = tune_that_raises(RuntimeError(text))
        assert done.code == 1
        assert "Traceback" not in done.err
        assert str(path) in done.err
    assert {each.name for each in tmp_path.iterdir()} == {path.name, "precious"}
    assert "RuntimeError: ah" in path.read_text()
    assert (tmp_path / "precious").read_text() == "mine"
    assert path.stat().st_mode & 0o077 == 0
    monkeypatch.setattr("tempfile.mkstemp", Mock(side_effect=OSError(errno.EROFS, "read-only")))
    done = tune_that_raises(RuntimeError("oh"))
    assert (done.code, "TUNE_DEBUG=1" in done.err) == (1, True)
    monkeypatch.setenv("TUNE_DEBUG", "1")
    assert "Traceback" in tune_that_raises(RuntimeError("oh")).err


@pytest.mark.parametrize(
    ("number", "code", "advice"),
    [
        (errno.ENOSPC, 2, "free space"),
        (errno.EDQUOT, 2, "quota"),
        (errno.EACCES, 2, "permission"),
        (errno.EROFS, 2, "that can be written"),
        (errno.EBADF, 1, "report"),
        (errno.ENOENT, 1, "report"),
    ],
)
def test_an_error_of_the_system_is_the_users_only_if_the_user_can_mend_it(
    tune_that_raises: Tune, number: int, code: int, advice: str
) -> None:
    done = tune_that_raises(OSError(number, os.strerror(number), "/x"))
    assert done.code == code
    first, second = done.err.splitlines()
    assert os.strerror(number) in first and "/x" in first
    assert advice in second


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    """As ``tune --help | true``, with a pipe that is closed before anything is written."""
    read, write = os.pipe()
    os.close(read)
    argv = [sys.executable, "-c", MAIN, "--help"]
    done = subprocess.run(argv, stdout=write, stderr=subprocess.PIPE, cwd=tmp_path, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_the_python_interface_loads_lazily() -> None:
    program = (
        "import sys, tuner; heavy = {'optuna', 'sqlalchemy', 'numpy'};"
        "assert not heavy & set(sys.modules); tuner.TunerError; tuner.Result; tuner.StudySpec;"
        "assert callable(tuner.tune); assert 'tune' in dir(tuner)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    with pytest.raises(AttributeError, match="nothing"):
        _ = tuner.nothing


def test_a_study_file_in_the_current_folder_is_taken_up_and_named(
    tune: Tune, tmp_path: Path
) -> None:
    (tmp_path / "tune.toml").write_text("trails = 3\n")
    done = tune()
    assert done.code == 2
    assert "trails" in done.err
    assert "Did you mean 'trials'" in done.err


def test_joining_says_what_it_needs(tune: Tune, tmp_path: Path) -> None:
    code, _, err = tune("--join", "x", "--storage", str(tmp_path / "x.db"))
    assert code == 2
    assert "another host cannot share the SQLite file" in err
    code, _, err = tune("--join", "x", "--trials", "3", "--storage", "postgresql://h/d")
    assert code == 2
    assert "--join x takes the study as it is stored, without --trials" in err
