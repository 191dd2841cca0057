"""argv before click, and what stands around every command."""

from __future__ import annotations

import dataclasses
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

import tuner
from tests.cli.conftest import Done, Tune
from tests.light_trainer import captured
from tuner.cli import main as entry
from tuner.cli.app import COMMANDS
from tuner.model import Result, StudyState
from tuner.model.errors import BusyError, UsageError


@pytest.mark.parametrize(
    ("args", "wrong", "meant"),
    [
        (("--trails", "5"), "--trails", "did you mean --trials?"),
        (("exprot",), "exprot", "did you mean `tune export`?"),
        (("train.py",), "train.py", "after `--`: tune -- train.py"),
        (("--trials", "many"), "many", "--help"),
        (("-n", "2", "python", "train.py"), "python train.py", "after `--`: tune -n 4 -- python"),
        (("export", "--format", "yaml"), "yaml", "sh, env, json"),
        (("--",), "no program after", "tune -- python"),
        (("doctor", "--"), "no program after", "tune doctor -- python"),
        ((), "nothing was typed, and there is no ./tune.toml", "`tune demo` shows"),
        (("run",), "nothing was typed, and there is no ./tune.toml", "`tune init` writes"),
        (("exec",), "no command to run after `--`", "tune exec "),
        (("exec", "mnist", "--"), "no command to run after `--`", "tune exec "),
        (("exec", "a", "b", "--", "c"), "unexpected", ""),
        (("knobs", "alocator"), "there is no knob 'alocator'", "'allocator'"),
        (("knobs", "-n", "0"), "-n", "--help"),
        (("doctor", "--hosts", "-x"), "--hosts", ""),
        (("doctor", "--hosts", "h1,h2:2"), "--hosts", ""),
        # What a variable that is not set leaves is not taken for the default.
        (("show", ""), "STUDY is empty", "is a variable unset?"),
        (("show", "--storage", ""), "--storage is empty", ""),
        (("compare", "mnist", ""), "AFTER is empty", ""),
        (("--run-dir=", "--dry-run"), "--run-dir is empty", ""),
        (("--fix", "", "--dry-run"), "--fix is empty", ""),
        (("--join", "x", "--storage", "x.db"), "another host cannot share the SQLite file", ""),
        (("--join", "x", "--trials", "3", "--storage", "postgresql://h/d"),
         "--join x takes the study as it is stored, without --trials", ""),
    ],
)  # fmt: skip
def test_a_slip_is_one_error_with_the_next_step(
    tune: Tune, args: tuple[str, ...], wrong: str, meant: str
) -> None:
    done = tune(*args)
    assert done.code == 2
    assert done.out == ""
    first, *hints = done.err.splitlines()
    assert first.startswith("tune: error: ") and wrong in first
    assert hints[0].startswith("  next: ") and meant in "".join(hints)


def test_help_names_every_command_and_option_with_examples(tune: Tune) -> None:
    done = tune("--help")
    assert (done.code, done.err) == (0, "")
    options = ("--mpi-procs", "--trial-limit", "--storage", "--budget", "--no-confirm")
    for word in (*COMMANDS, *options, "Examples:", "130"):
        assert word in done.out
    assert tune("-h").out == done.out
    assert tune("--version").out == f"tune {tuner.__version__}\n"


@pytest.mark.parametrize(
    ("args", "env"),
    [
        (["--help"], {}),
        ([], {"_TUNE_COMPLETE": "bash_complete", "COMP_WORDS": "tune --", "COMP_CWORD": "1"}),
    ],
)
def test_help_and_completion_load_nothing_heavy(
    args: list[str], env: dict[str, str], tmp_path: Path
) -> None:
    program = (
        "import sys; from tuner.cli.main import main; main(sys.argv[1:]);"
        "print(*{name.split('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    done = captured([sys.executable, "-c", program, *args], tmp_path, {**os.environ, **env})
    assert done.returncode == 0, done.stderr
    heavy = "rich pydantic optuna sqlalchemy scipy numpy plotly yaml psutil"
    assert not set(heavy.split()) & set(done.stderr.split())


@pytest.fixture
def tune_that_raises(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> Tune:
    """Runs a command that ends with an error."""

    def call(error: BaseException) -> Done:
        monkeypatch.setattr(entry, "_run", Mock(side_effect=error))
        return tune()

    return call


@pytest.mark.parametrize(
    ("error", "code", "message", "hint"),
    [
        (UsageError("m", "h"), 2, "m", "h"),
        (BusyError("m", "h"), 5, "m", "h"),
        (OSError(errno.ENOSPC, "full", "/x"), 2, "full: /x", "free space"),
        (OSError(errno.EFBIG, "large"), 2, "large", "ulimit -f"),
        (OSError(errno.EIO, "broken"), 2, "broken", "another place"),
        (UsageError("\x1b]0;x\x07 \udcff é", "h"), 2, r"\x1b]0;x\x07 \udcff é", "h"),
    ],
)
def test_every_error_has_its_exit_code_and_its_next_step(
    tune_that_raises: Tune, error: Exception, code: int, message: str, hint: str
) -> None:
    done = tune_that_raises(error)
    assert (done.code, done.out) == (code, "")
    first, second = done.err.splitlines()
    assert first == f"tune: error: {message}"
    assert second.startswith("  next: ") and hint in second


def test_a_defect_is_shown_with_its_traceback(tune_that_raises: Tune) -> None:
    done = tune_that_raises(RuntimeError("oh"))
    assert done.code == 1
    assert done.err.startswith("Traceback")
    assert "\ntune: error: a defect in tune: " in done.err and "please report" in done.err


def test_ctrl_c_says_how_to_go_on(tune_that_raises: Tune) -> None:
    class Stopped(KeyboardInterrupt):
        signal_number = signal.SIGTERM
        result = Result("x", "db", StudyState.INTERRUPTED, "", None, None, 3, 5, 0)

    assert "interrupted; nothing was measured yet; the same" in tune_that_raises(Stopped()).err
    Stopped.result = dataclasses.replace(Stopped.result, launches_measured=3)
    done = tune_that_raises(Stopped())
    assert done.code == 143
    assert done.err.count("\n") == 2  # the terminal shows ^C on a line of its own
    assert "3 measurements kept; the same command continues" in done.err
    assert tune_that_raises(KeyboardInterrupt()).code == 130


def test_the_python_interface_loads_lazily() -> None:
    program = (
        "import sys, tuner; heavy = {'optuna', 'sqlalchemy', 'numpy'};"
        "assert not heavy & set(sys.modules); tuner.TunerError; tuner.Result; tuner.StudySpec;"
        "assert callable(tuner.tune); assert 'tune' in dir(tuner)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    with pytest.raises(AttributeError, match="nothing"):
        _ = tuner.nothing
