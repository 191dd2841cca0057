"""task_wrapper.sh under every POSIX shell that is here."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

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


def call(shell: str, *args: str | bytes, env: dict[bytes, bytes] | None = None) -> bytes:
    """What `env -0` prints below the wrapper."""
    command: list[str | bytes] = [shell, WRAPPER, *args, "--", "env", "-0"]
    environ = {b"PATH": os.environb[b"PATH"], **(env or {})}
    return subprocess.run(command, env=environ, capture_output=True, check=True).stdout


def refused(shell: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([shell, WRAPPER, *args], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=20, deadline=None)
@given(chosen=st.lists(values | awkward, min_size=1, max_size=8))
def test_values_and_arguments_arrive_byte_for_byte(shell: str, chosen: list[bytes]) -> None:
    assigned = [f"KNOB_{index}=".encode() + value for index, value in enumerate(chosen)]
    lines = call(shell, *assigned).split(b"\0")
    assert sorted(line for line in lines if line.startswith(b"KNOB_")) == assigned
    command: list[str | bytes] = [shell, WRAPPER, "--", "printf", "%s\\0", *chosen]
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stdout == b"".join(value + b"\0" for value in chosen)


@pytest.mark.parametrize("shell", SHELLS)
def test_it_unsets_leaves_everything_else_alone_and_becomes_the_command(shell: str) -> None:
    seen = call(shell, "-u", "GONE", "NEW=1", env={b"GONE": b"x", b"name": b"kept", b"NEW": b"0"})
    lines = seen.split(b"\0")
    assert {b"NEW=1", b"name=kept"} <= {*lines}
    assert not any(line.startswith(b"GONE=") for line in lines)
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
    done = refused(shell, *args)
    assert done.returncode == 2
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


@pytest.mark.parametrize("shell", SHELLS)
def test_a_command_that_cannot_be_run_and_a_wrapper_without_an_x_bit(
    shell: str, tmp_path: Path
) -> None:
    plain, copy = tmp_path / "plain file", tmp_path / "no x bit.sh"
    plain.write_text("")
    assert refused(shell, "--", str(tmp_path / "nowhere")).returncode == 127
    assert refused(shell, "--", str(plain)).returncode == 126
    assert refused(shell, "--", "sh", "-c", "exit 7").returncode == 7
    copy.write_bytes(Path(WRAPPER).read_bytes())
    done = subprocess.run([*wrapper_argv()[:-1], copy, "A=1", "--", "true"], check=False)
    assert done.returncode == 0


def test_clean_under_shellcheck(require_program: Callable[[str], str]) -> None:
    scripts = (WRAPPER, *ssh_wrapper()[1].values())
    subprocess.run([require_program("shellcheck"), "--shell=sh", *scripts], check=True)
