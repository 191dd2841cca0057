"""Completion in real shells: the printed script, fed with a line, gives the right words."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import store_study
from tests.scripts import python_script
from tests.study_samples import study

pytestmark = pytest.mark.system

Require = Callable[[str], str]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """``tune`` on PATH under its own name, and a database with the study ``mnist``."""
    tune = tmp_path / "bin" / "tune"
    tune.parent.mkdir()
    tune.write_text(
        python_script("import sys\nfrom tuner.cli.main import main\nsys.exit(main())\n")
    )
    tune.chmod(0o755)
    database = store_study(tmp_path / "tune.db", study())
    return {
        "PATH": f"{tune.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TUNE_STORAGE": str(database),
        "LANG": "C.UTF-8",
    }


def run(shell: str, script: str, environment: dict[str, str], *flags: str) -> list[str]:
    done = subprocess.run(
        [shell, *flags, "-c", script],
        env=environment,
        cwd=environment["HOME"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout.splitlines()


CASES = [
    (("tune", "expo"), ["export"]),
    (("tune", "--trial"), ["--trials", "--trial-limit"]),
    (("tune", "run", "--see"), ["--seed"]),
    (("tune", "show", ""), ["mnist"]),
    (("tune", "export", "--format", "j"), ["json"]),
    (("tune", "--knob", "openc"), ["opencv_threads="]),
]


@pytest.mark.parametrize(("words", "expected"), CASES)
def test_bash(
    require_program: Require,
    environment: dict[str, str],
    words: tuple[str, ...],
    expected: list[str],
) -> None:
    quoted = " ".join(f"'{word}'" for word in words)
    script = f"""
eval "$(tune completion bash)"
compopt() {{ :; }}   # works only while a completion is being asked for
COMP_WORDS=({quoted}) COMP_CWORD={len(words) - 1}
_tune_completion tune
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    assert run(require_program("bash"), script, environment, "--norc") == expected


def test_bash_knows_how_tune_is_completed(
    require_program: Require, environment: dict[str, str]
) -> None:
    script = 'eval "$(tune completion bash)"; complete -p tune'
    assert run(require_program("bash"), script, environment) == [
        "complete -o nosort -F _tune_completion tune"
    ]


@pytest.mark.parametrize(("words", "expected"), CASES)
def test_fish(
    require_program: Require,
    environment: dict[str, str],
    words: tuple[str, ...],
    expected: list[str],
) -> None:
    fish = require_program("fish")
    line = " ".join(words)
    script = f"tune completion fish | source; complete --do-complete '{line}'"
    found = [answer.partition("\t")[0] for answer in run(fish, script, environment, "--no-config")]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(("words", "expected"), CASES)
def test_zsh(
    require_program: Require,
    environment: dict[str, str],
    words: tuple[str, ...],
    expected: list[str],
) -> None:
    """The line editor is not there: what the script hands to it is caught instead."""
    quoted = " ".join(f"'{word}'" for word in words)
    script = f"""
autoload -Uz compinit; compinit -u -d "$HOME/.zcompdump"
eval "$(tune completion zsh)"
compadd() {{ print -l -- ${{(P)argv[-1]}}; }}
_describe() {{ print -l -- ${{${{(P)argv[3]}}%%:*}}; }}
words=({quoted}); CURRENT={len(words)}
_tune_completion
"""
    assert run(require_program("zsh"), script, environment, "-f") == expected
