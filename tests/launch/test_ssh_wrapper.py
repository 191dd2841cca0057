"""What marks the processes that a launcher starts on other hosts: here ssh is a shell."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tuner.launch.hosts import reach
from tuner.launch.launchers import ssh_wrapper
from tuner.model import LauncherInfo
from tuner.model.errors import UsageError

#: Like ssh: runs the words after the host, joined, in a shell; says with what it was called.
SSH = """#!/bin/sh
printf '<%s>' "$@" >&2
while [ "$1" != "$HOST" ]; do shift; done
shift
exec env -i sh -c "$*"
"""


@pytest.fixture
def ssh(tmp_path: Path) -> str:
    path = tmp_path / "my ssh"
    path.write_text(SSH)
    path.chmod(0o755)
    return str(path)


def run(ssh: str, *words: str, script: Path | None = None) -> tuple[str, str]:
    """What came out of it, and with what ssh was called; ``script`` is a copy of the wrapper."""
    wrapper, variables = ssh_wrapper()
    if script is not None:
        variables = dict.fromkeys(variables, str(script))
    env = {**os.environ, "HOST": "h2", "TUNE_TRIAL": "abc", "TUNE_SSH": f"'{ssh}' -F 'a b'"}
    argv = [*wrapper, *words]
    done = subprocess.run(argv, env=env | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def test_as_open_mpi_calls_it_with_one_text(ssh: str) -> None:
    text = "A='x y';export A;sh -c 'echo $TUNE_TRIAL $A'"
    out, called = run(ssh, "-x", "h2", text)
    assert out == "abc x y"
    assert called.startswith("<-F><a b><-x><h2>")


def test_as_mpich_calls_it_with_words(ssh: str) -> None:
    assert run(ssh, "h2", '"/bin/sh"', "-c", "'echo $TUNE_TRIAL'")[0] == "abc"


def test_it_runs_from_a_folder_with_a_blank_and_without_its_x_bit(ssh: str, tmp_path: Path) -> None:
    words, (path, *_) = ssh_wrapper()[0], ssh_wrapper()[1].values()
    assert not any(set(word) & set(" \t:,") for word in words)  # Open MPI would split it there
    folder = tmp_path / "a 'b"
    folder.mkdir()
    copy = Path(shutil.copyfile(path, folder / "ssh_wrapper.sh"))
    assert run(ssh, "h2", "echo $TUNE_TRIAL", script=copy)[0] == "abc"


def test_how_ssh_ended_is_noted_and_handed_on(ssh: str, tmp_path: Path) -> None:
    Path(ssh).write_text(f"#!/bin/sh\nls '{tmp_path / 'notes'}'\nkill -9 $$\n")
    (tmp_path / "notes").mkdir()
    wrapper, variables = ssh_wrapper()
    variables |= {"TUNE_CONNECTIONS": str(tmp_path / "notes"), "TUNE_SSH": f"'{ssh}'"}
    done = subprocess.run(
        [*wrapper, "-x", "h2", "true"], env=os.environ | variables, capture_output=True, check=False
    )
    # mpirun must not see a signal here: Open MPI would take it for the exit code 0.
    assert (done.returncode, done.stdout) == (137, b"h2\n")
    assert sorted(path.name for path in (tmp_path / "notes").iterdir()) == ["h2", "h2=137"]


def test_an_ssh_that_is_not_there_is_named() -> None:
    info = LauncherInfo("openmpi", "/usr/bin/mpirun", "5.0.11", ssh=("nossh", "-v"))
    with pytest.raises(UsageError, match="there is no program 'nossh'"):
        reach(info, ["h2"], os.environ)


def test_an_open_mpi_in_a_folder_with_a_blank_starts_nothing_elsewhere() -> None:
    info = LauncherInfo("openmpi", "/my mpi/bin/mpirun", "5.0.11", ssh=("env",))
    with pytest.raises(UsageError, match="if its path has a blank"):
        reach(info, ["h2"], os.environ)
