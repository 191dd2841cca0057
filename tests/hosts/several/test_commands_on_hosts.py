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

#: An interpreter that says it is an older one, if it is asked what it is.
OLD = """\
#!/bin/sh
shift
code=$1
shift
exec {python} -c "import platform; platform.python_version = lambda: '3.8.20'
$code" "$@"
"""


def doctor(bench: Bench, hosts: str, *words: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and the findings by the names of the checks."""
    done = bench.run("h1", TUNE, "doctor", "--json", "--hosts", hosts, *words, check=False)
    return done.returncode, {check["name"]: check for check in json.loads(done.stdout)["checks"]}


def test_another_python_is_found_and_what_hosts_share(bench: Bench, folder: Path) -> None:
    for host in bench.names:  # /tmp is each host's own
        text = OLD if host == "h3" else '#!/bin/sh\nexec {python} "$@"\n'
        write = 'mkdir -p /tmp/v && printf %s "$1" > /tmp/v/python3 && chmod +x /tmp/v/python3'
        bench.run(host, "sh", "-c", write, "sh", text.format(python=sys.executable))
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


#: The guide to spot instances is run as a whole, below.
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


def test_the_commands_of_the_documentation_find_their_hosts(bench: Bench, folder: Path) -> None:
    (folder / "train.py").write_text(TRAIN)
    (folder / "hosts").write_text("h1 slots=4\nh2 slots=4\n")
    (folder / "hosts.sh").write_text("#!/bin/sh\nprintf 'h1 4\\nh2 4\\n'\n")
    (folder / "hosts.sh").chmod(0o755)
    assert len(COMMANDS) >= 4
    for command in COMMANDS:
        words = shlex.join(shlex.split(command)[1:])
        script = f"cd {folder} && PATH={Path(TUNE).parent}:$PATH exec tune --dry-run {words}"
        done = bench.run("h1", "sh", "-c", script, check=False)
        assert done.returncode == 0, (command, done.stderr)
        assert "h2" in done.stdout, command


class Guide:
    """Runs the blocks of the guide on the first host, in a folder."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self.bench, self.folder = bench, folder
        script, self.tune, self.run_job = blocks("docs/how-to/spot.md")
        self._write("hosts.sh", script)
        self._write("aws", '#!/bin/sh\ncd "$(dirname "$0")"\ncat there\necho >> asked\n')
        self._write("train.py", TRAIN)
        self.hosts("h2", "h3")
        path = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        storage = str(folder / "study.db")
        self._env = {**os.environ, "PATH": path, "TUNE_STORAGE": storage}

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def hosts(self, *names: str) -> None:
        """The cloud has these now."""
        self._write("there", "\n".join(names) + "\n")

    def asked(self) -> int:
        """How often the cloud has answered."""
        return (self.folder / "asked").read_text().count("\n")

    def start(self, commands: str, steps: int) -> subprocess.Popen[str]:
        self._write("length", str(steps))
        words = ("sh", "-c", f"cd '{self.folder}' && {commands}")
        return self.bench.start("h1", *words, env=self._env)


def test_a_job_goes_on_from_its_newest_snapshot_on_other_hosts(bench: Bench, folder: Path) -> None:
    guide = Guide(bench, folder)
    short = "--mpi-procs 2 --ppn 1 --trials 1 --no-confirm --knob omp_threads=1,2"
    tune = guide.start(guide.tune.replace("--mpi-procs 8 --ppn 4", short), 3)
    output, errors = tune.communicate(timeout=120)
    assert tune.returncode == 0, output + errors

    job = guide.start(guide.run_job, 60)
    eventually((folder / "out" / "snapshot_10").exists)
    before = guide.asked()
    bench.link("h3", "down")
    try:
        eventually(lambda: guide.asked() > before)  # the cloud has not noticed yet
        guide.hosts("h2", "h1")
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
