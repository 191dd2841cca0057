"""Completion in real shells: the printed script, given a line, answers the right words."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import store_study
from tests.light_trainer import python_script
from tests.study_samples import study

pytestmark = pytest.mark.system

#: What is typed, and the answers; the cursor is at the end of the last word.
CASES = {
    ("tune", "--trial"): ["--trials", "--trial-limit"],
    ("tune", "show", ""): ["mnist"],
    ("tune", "--knob", "openc"): ["opencv_threads"],
    ("tune", "--pruner", "me"): ["median"],
    ("tune", "compare", "mnist", "m"): ["mnist"],
    ("tune", "export", "--format", "sl"): ["slurm"],
}

#: How to start a shell, and a function of it that prints the answers for its arguments.
SHELLS = {
    "bash": (
        ["--norc"],
        """
eval "$(tune completion bash)"
[ "$(complete -p tune)" = "complete -o nosort -F _tune_completion tune" ] || exit 1
compopt() { :; }   # works only during a completion
answers() {
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _tune_completion tune
  printf '%s\\n' "${COMPREPLY[@]}"
}
""",
    ),
    "zsh": (
        ["-f"],
        """
autoload -Uz compinit; compinit -u -d "$HOME/.zcompdump"
eval "$(tune completion zsh)"
# The line editor is not there: what the script hands to it is caught instead.
_path_files() { :; }
compadd() { print -l -- ${(P)argv[-1]}; }
_describe() { print -l -- ${${(P)argv[3]}%%:*}; }
answers() { words=("$@"); CURRENT=$#; _tune_completion; }
""",
    ),
    "fish": (
        ["--no-config"],
        """
tune completion fish | source
function answers; complete --do-complete (string join ' ' -- $argv); end
""",
    ),
}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_is_answered(
    require_program: Callable[[str], str], tmp_path: Path, shell: str
) -> None:
    tune = tmp_path / "bin" / "tune"
    tune.parent.mkdir()
    tune.write_text(
        python_script("import sys\nfrom tuner.cli.main import main\nsys.exit(main())\n")
    )
    tune.chmod(0o755)
    environment = {
        "PATH": f"{tune.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TUNE_STORAGE": str(store_study(tmp_path / "tune.db", study())),
        "LANG": "C.UTF-8",
    }
    flags, script = SHELLS[shell]
    for words in CASES:
        script += "answers " + " ".join(f"'{word}'" for word in words) + "\necho '=='\n"
    done = subprocess.run(
        [require_program(shell), *flags, "-c", script],
        env=environment,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    found = [
        [answer.partition("\t")[0] for answer in block.splitlines()]
        for block in done.stdout.split("==\n")[:-1]
    ]
    cases = CASES
    if shell == "fish":  # which sorts
        found, cases = [sorted(each) for each in found], {k: sorted(v) for k, v in cases.items()}
    assert dict(zip(cases, found, strict=True)) == cases
