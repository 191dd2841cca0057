"""What marks the processes that a launcher starts on other hosts: here ssh is a shell."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tuner.launch.launchers import ssh_wrapper
from tuner.launch.start_agents import reach
from tuner.model import LauncherInfo
from tuner.model.errors import UsageError

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
def test_the_marker_reaches_the_other_host(
    tmp_path: Path, words: list[str], printed: str, called: str
) -> None:
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


@pytest.mark.parametrize(
    ("info", "said"),
    [
        (LauncherInfo("openmpi", "/mpirun", "5", ssh=("nossh",)), "there is no program 'nossh'"),
        (LauncherInfo("openmpi", "/my mpi/bin/mpirun", "5"), "if its path has a blank"),
    ],
)
def test_what_cannot_reach_another_host_is_named(info: LauncherInfo, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        reach(info, ["h2"], os.environ)
