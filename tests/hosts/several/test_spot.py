"""The commands of the guide to spot instances, on hosts that come and go."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.guides import TRAIN, blocks
from tests.hosts.several.bench import Bench
from tests.marked import eventually

pytestmark = [pytest.mark.system, pytest.mark.slow]


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
