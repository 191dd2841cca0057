"""The wrappers of ranks and of ssh, which is a shell here, under every POSIX shell there is."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from campaigns.exports_inert import SHELLS
from tuner.launch.launchers import ssh_wrapper, wrapper_argv

WRAPPER = wrapper_argv()[-1]

values = st.binary(max_size=40).map(lambda data: data.replace(b"\0", b""))
awkward = st.sampled_from(
    [
        *rb"""|| |a b|'|"|$(exit 3)|`id`|${HOME}|\|\n|-u|--|-n|a=b=c|*|~""".split(b"|"),
        *(b"\n", b"x\n\n", b"\xff\xfe", b"\x01\x7f", "café".encode()),
    ]
)


def run(shell: str, *args: str | bytes, **options: Any) -> Any:
    return subprocess.run([shell, WRAPPER, *args], capture_output=True, check=False, **options)


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=20, deadline=None)
@given(chosen=st.lists(values | awkward, min_size=1, max_size=8))
def test_values_and_arguments_arrive_byte_for_byte(shell: str, chosen: list[bytes]) -> None:
    assigned = [f"KNOB_{index}=".encode() + value for index, value in enumerate(chosen)]
    lines = run(shell, *assigned, "--", "env", "-0").stdout.split(b"\0")
    assert sorted(line for line in lines if line.startswith(b"KNOB_")) == assigned
    done = run(shell, "--", "printf", "%s\\0", *chosen)
    assert done.stdout == b"".join(value + b"\0" for value in chosen)


@pytest.mark.parametrize("shell", SHELLS)
def test_it_unsets_leaves_everything_else_alone_and_becomes_the_command(shell: str) -> None:
    env = {"PATH": os.environ["PATH"], "GONE": "x", "name": "kept", "NEW": "0"}
    done = run(shell, "-u", "GONE", "NEW=1", "--", "env", "-0", env=env, text=True)
    lines = done.stdout.split("\0")
    assert {"NEW=1", "name=kept"} <= {*lines}
    assert not any(line.startswith("GONE=") for line in lines)
    command = [shell, WRAPPER, "A=1", "--", "sh", "-c", "echo $$"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as wrapped:
        output, _ = wrapped.communicate()
    assert int(output) == wrapped.pid


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("args", "told"),
    [
        ((), "no '--' and command"),
        (("A=1", "--"), "no command after '--'"),
        (("A=1", "true"), "'true' is neither"),
        (("1A=1", "--", "true"), "'1A' is not the name"),
        (("A\nB=1", "--", "true"), "'A B' is not the name"),
        (("é=1", "--", "true"), "is not the name"),
        (("-u",), "-u needs the name"),
        (("-u", "A=1", "--", "true"), "'A=1' is not the name"),
        (("-x", "--", "true"), "'-x' is neither"),
        (("--", "-n"), "begins with a dash"),
    ],
)
def test_a_mistake_is_one_line_and_2(shell: str, args: tuple[str, ...], told: str) -> None:
    done = run(shell, *args, text=True)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert told in done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_a_command_that_cannot_run_and_a_wrapper_without_x_bit(shell: str, tmp_path: Path) -> None:
    plain, copy = tmp_path / "plain file", tmp_path / "no x bit.sh"
    plain.write_text("")
    assert run(shell, "--", str(tmp_path / "nowhere")).returncode == 127
    assert run(shell, "--", str(plain)).returncode == 126
    assert run(shell, "--", "sh", "-c", "exit 7").returncode == 7
    copy.write_bytes(Path(WRAPPER).read_bytes())
    done = subprocess.run([*wrapper_argv()[:-1], copy, "A=1", "--", "true"], check=False)
    assert done.returncode == 0


def test_clean_under_shellcheck(require_program: Callable[[str], str]) -> None:
    scripts = (WRAPPER, *ssh_wrapper()[1].values())
    subprocess.run([require_program("shellcheck"), "--shell=sh", *scripts], check=True)


#: Like ssh: runs the words after the host, joined, in a shell; says with what it was called.
SSH = """#!/bin/sh
printf '<%s>' "$@" >&2
while [ "$1" != h2 ]; do shift; done
shift
exec env -i sh -c "$*"
"""


@pytest.mark.parametrize(
    ("words", "printed", "called"),
    [
        # Open MPI calls it with one text, MPICH with words.
        (["-x", "h2", "A='x y';export A;sh -c 'echo $TUNE_TRIAL $A'"], "abc x y", "<-x><h2>"),
        (["h2", '"/bin/sh"', "-c", "'echo $TUNE_TRIAL'"], "abc", "<h2>"),
    ],
)
def test_the_marker_gets_there(tmp_path: Path, words: list[str], printed: str, called: str) -> None:
    """From a folder with a blank, and without its x bit."""
    ssh, folder = tmp_path / "my ssh", tmp_path / "a 'b"
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    folder.mkdir()
    wrapper, variables = ssh_wrapper()
    assert not any(set(word) & set(" \t:,") for word in wrapper)  # Open MPI would split it there
    ((name, path),) = variables.items()
    variables[name] = str(shutil.copyfile(path, folder / "ssh_wrapper.sh"))
    env = {**os.environ, "TUNE_TRIAL": "abc", "TUNE_SSH": f"'{ssh}' -F 'a b'", **variables}
    done = subprocess.run([*wrapper, *words], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == printed
    assert done.stderr.startswith(f"<-F><a b>{called}")


def test_how_ssh_ended_is_noted_and_handed_on(tmp_path: Path) -> None:
    ssh, notes = tmp_path / "ssh", tmp_path / "notes"
    ssh.write_text(f"#!/bin/sh\nls '{notes}'\nkill -9 $$\n")
    ssh.chmod(0o755)
    notes.mkdir()
    wrapper, variables = ssh_wrapper()
    variables |= {"TUNE_CONNECTIONS": str(notes), "TUNE_SSH": f"'{ssh}'"}
    done = subprocess.run(
        [*wrapper, "-x", "h2", "true"], env=os.environ | variables, capture_output=True, check=False
    )
    # mpirun must not see a signal here: Open MPI would take it for the exit code 0.
    assert (done.returncode, done.stdout) == (137, b"h2\n")
    assert sorted(path.name for path in notes.iterdir()) == ["h2", "h2=137"]
