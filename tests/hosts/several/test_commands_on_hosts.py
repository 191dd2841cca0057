"""``tune doctor``, the commands of the documentation and the guide to spot instances, on hosts."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.guides import TRAIN, blocks, tune_commands
from tests.hosts.several.bench import Bench
from tests.hosts.several.study_on_hosts import TUNE
from tests.marked import eventually

pytestmark = [pytest.mark.system, pytest.mark.slow]


def doctor(bench: Bench, hosts: str, *words: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and the findings by the names of the checks."""
    done = bench.run("h1", TUNE, "doctor", "--json", "--hosts", hosts, *words, check=False)
    return done.returncode, {check["name"]: check for check in json.loads(done.stdout)["checks"]}


def test_another_python_is_found_and_what_hosts_share(bench: Bench, folder: Path) -> None:
    ours = f'#!/bin/sh\nexec {sys.executable} "$@"\n'
    older = """#!/bin/sh\necho 'tune-doctor: {"version": "3.8.20"}'\n"""
    write = 'mkdir -p /tmp/v && printf %s "$1" > /tmp/v/python3 && chmod +x /tmp/v/python3'
    for host in bench.names:  # /tmp is each host's own
        bench.run(host, "sh", "-c", write, "sh", older if host == "h3" else ours)
    (folder / "train.py").touch()
    command = ("/tmp/v/python3", str(folder / "train.py"))
    code, checks = doctor(bench, "h2,h3", "--", *command)
    assert code == 3
    assert (checks["hosts"]["state"], checks["hosts"]["saw"]) == ("ok", "h2, h3 answer")
    assert checks["Python"]["state"] == "failure"
    assert "h3: 3.8.20, /tmp/v/python3" in checks["Python"]["saw"]
    assert checks["common network"]["state"] == "ok"


def test_a_host_that_lacks_the_interpreter_is_named_alone(bench: Bench, folder: Path) -> None:
    place = str(Path(sys.executable).resolve().parent)
    bench.run("h3", "mount", "-t", "tmpfs", "tmpfs", place)
    try:
        code, checks = doctor(bench, "h2,h3")
    finally:
        bench.run("h3", "umount", place)
    assert (code, checks["hosts"]["state"]) == (3, "failure")
    assert checks["hosts"]["saw"].startswith("no answer from h3: Executable: ")
    assert checks["launcher"]["state"] == "ok", "this host is checked all the same"


def test_the_commands_of_the_documentation_find_their_hosts(bench: Bench, folder: Path) -> None:
    # The guide to spot instances is run as a whole, below.
    pages = [lines for page, lines in tune_commands().items() if Path(page).name != "spot.md"]
    commands = {line for lines in pages for line in lines if "--host" in line}
    commands = {line for line in commands if not re.match("tune (scale|doctor)", line)}
    (folder / "train.py").write_text(TRAIN)
    (folder / "hosts").write_text("h1 slots=4\nh2 slots=4\n")
    for name in ("hosts.sh", "solver"):
        (folder / name).write_text("#!/bin/sh\nprintf 'h1 4\\nh2 4\\n'\n")
        (folder / name).chmod(0o755)
    assert len(commands) >= 4
    for command in sorted(commands):
        words = shlex.join(shlex.split(command)[1:])
        script = f"cd {folder} && PATH={Path(TUNE).parent}:$PATH exec tune --dry-run {words}"
        done = bench.run("h1", "sh", "-c", script, check=False)
        assert done.returncode == 0, (command, done.stderr)
        assert "h2" in done.stdout, command


def test_a_job_goes_on_from_its_newest_snapshot_on_other_hosts(bench: Bench, folder: Path) -> None:
    def write(name: str, text: str) -> None:
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)

    def start(commands: str, steps: int) -> subprocess.Popen[str]:
        write("length", str(steps))
        path = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        env = {**os.environ, "PATH": path, "TUNE_STORAGE": str(folder / "study.db")}
        return bench.start("h1", "sh", "-c", f"cd '{folder}' && {commands}", env=env)

    hosts_script, tune_command, job_command = blocks("docs/how-to/spot.md")
    write("hosts.sh", hosts_script)
    write("aws", '#!/bin/sh\ncd "$(dirname "$0")"\ncat there\necho >> asked\n')
    write("train.py", TRAIN)
    write("there", "h2\nh3\n")
    short = "--mpi-procs 2 --ppn 1 --trials 1 --no-confirm --knob omp_threads=1,2"
    tune = start(tune_command.replace("--mpi-procs 8 --ppn 4", short), 3)
    output, errors = tune.communicate(timeout=120)
    assert tune.returncode == 0, output + errors

    job = start(job_command, 60)
    eventually((folder / "out" / "snapshot_10").exists)
    asked = folder / "asked"
    before = asked.stat().st_size
    bench.link("h3", "down")
    try:
        eventually(lambda: asked.stat().st_size > before)  # the cloud has not noticed yet
        write("there", "h2\nh1\n")
        output, errors = job.communicate(timeout=120)
    finally:
        bench.link("h3", "up")
    assert job.returncode == 0, output + errors
    assert "try 1 of 20 was ended from outside (the host h3 is lost)" in errors
    assert "try 2 of 20 was not begun (no answer from h3: " in errors
    begun = {int(line.split()[-1]) for line in output.splitlines() if "begins at" in line}
    first, again = sorted(begun)
    assert first == 0 and 10 <= again < 60, output
    assert json.loads((folder / "out" / "log").read_text())[-1]["iteration"] == 60
