"""The commands of the documentation that name hosts, on hosts of these names."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.guides import TRAIN, tune_commands
from tests.hosts.several.bench import Bench
from tests.marked import eventually

pytestmark = [pytest.mark.system, pytest.mark.slow]

#: ``test_scale_hosts`` has ``tune scale``, ``test_doctor_over_hosts`` the doctor, and ``test_spot``
#: a whole guide.
COMMANDS = sorted(
    {
        line
        for page, lines in tune_commands().items()
        for line in lines
        if "--host" in line
        and not re.match("tune (scale|doctor)", line)
        and Path(page).name != "spot.md"
    }
)


def test_the_commands_find_their_hosts(bench: Bench, folder: Path) -> None:
    (folder / "train.py").write_text(TRAIN)
    (folder / "hosts").write_text("h1 slots=4\nh2 slots=4\n")
    (folder / "hosts.sh").write_text("#!/bin/sh\nprintf 'h1 4\\nh2 4\\n'\n")
    (folder / "hosts.sh").chmod(0o755)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    assert len(COMMANDS) >= 4
    for command in COMMANDS:
        words = shlex.join(shlex.split(command)[1:])
        script = f"cd {folder} && PATH={path} exec tune --dry-run {words}"
        done = bench.run("h1", "sh", "-c", script, check=False)
        assert done.returncode == 0, (command, done.stderr)
        assert "h2" in done.stdout, command
    eventually(lambda: not any(bench.processes(host) for host in bench.names))
