"""The run on a GPU machine, as far as it goes without one."""

from __future__ import annotations

import configparser
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import table
from benchmarks.gpu.parts import PARTS, ROOT

#: What tune and its extra `gpu` need that the machine has; the others are carried.
ON_THE_MACHINE = {"click", "jinja2", "numpy", "nvidia-ml-py", "regex", "rich"}


@pytest.mark.slow
@pytest.mark.system
def test_every_part_runs_on_cpus_and_has_its_line(tmp_path: Path) -> None:
    run = [sys.executable, "-m", "benchmarks.gpu", "--no-device", "--python", sys.executable]
    subprocess.run([*run, "--output", tmp_path], cwd=ROOT, check=True, timeout=600)
    lines = json.loads((tmp_path / "table.json").read_text())
    assert [line["part"] for line in lines] == [part.name for part in PARTS]
    assert all(line["baseline"]["samples_per_s"] for line in lines), lines
    assert all((tmp_path / part.name / "report.html").is_file() for part in PARTS)
    log = (tmp_path / "run.log").read_text()
    assert "check mpi: Open MPI" in log
    assert "check cupy: FAILED" in log  # and the parts were tuned all the same


def test_what_tune_needs_is_carried_or_on_the_machine() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    names = setup["options"]["install_requires"] + setup["options.extras_require"]["gpu"]
    needed = re.findall(r"^[\w-]+", names, re.MULTILINE)
    carried = re.findall(r"^[\w-]+", (ROOT / "benchmarks/gpu/wheels.txt").read_text(), re.MULTILINE)
    assert {name.lower() for name in needed} <= ON_THE_MACHINE | set(carried)


PROGRAM = """
import subprocess, sys, time
from pathlib import Path
from benchmarks.gpu import processes
processes.exit_by_signals()
daemon = "trap '' INT TERM; setsid sleep 300 & echo $! > pid; sleep 300"
command = processes.start(["sh", "-c", daemon], Path("log"), {"PATH": "/usr/bin:/bin"}, Path())
processes.GRACE_S = 0.1
print(processes.wait(command, float(sys.argv[1])), flush=True)
"""


@pytest.mark.system
@pytest.mark.parametrize("terminated", [False, True], ids=["at its limit", "by SIGTERM"])
def test_nothing_outlives_a_run(tmp_path: Path, *, terminated: bool) -> None:
    limit = "300" if terminated else "0.5"
    program = [sys.executable, "-c", PROGRAM, limit]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(program, cwd=tmp_path, env=environ, stdout=subprocess.PIPE) as run:
        pid = tmp_path / "pid"
        while not (pid.exists() and pid.read_text().strip()):
            time.sleep(0.02)
        if terminated:
            run.send_signal(signal.SIGTERM)
        printed, _ = run.communicate(timeout=30)
    assert printed == (b"" if terminated else b"ended after its 0 s\n")
    assert not Path("/proc", pid.read_text().strip()).exists()


def document() -> tuple[dict[str, Any], dict[str, Any]]:
    sides: dict[str, Any] = {
        name: {"figure": figure, "items_per_s": rate, "setting": {}, "stopped": None}
        for name, figure, rate in (("baseline", 0.2, 640.0), ("candidate", 0.1, 1280.0))
    }
    result = {"trials": 9, "launches": 20, "verdict": "faster", "ratio": 2.0}
    result |= {"finding": {"ratio": 2.0, "low": 1.9, "high": 2.1}, "export": {"opencv_threads": 1}}
    objective = {"kind": "logreport", "unit": "s"}
    study: dict[str, Any] = {"layout": {"ranks": 1}, "objective": objective, "items": 128}
    study["machine"] = {"cores": 16}
    runs = [
        {"name": name, "sentence": "held back by X, 50 % of the time", "figures": {"host": host}}
        for name, host in (
            ("best", {"gpu_share": 0.9, "gpu_power_w": 500.0}),
            ("baseline", {"gpu_share": 0.4, "gpu_power_w": 300.0}),
        )
    ]
    both = {**result, **sides, "best": sides["candidate"]}
    return {"study": study, "result": both}, {"runs": runs}


def test_the_table_has_what_the_gpu_did_and_the_parts_that_failed(tmp_path: Path) -> None:
    (tmp_path / "loader").mkdir()
    for name, content in zip(("result", "explained"), document(), strict=True):
        (tmp_path / "loader" / f"{name}.json").write_text(json.dumps(content))
    table.main(tmp_path, ["loader", "missing"])
    *_, measured, failed = (tmp_path / "table.md").read_text().splitlines()
    assert "2.00 (1.90 to 2.10)" in measured
    assert measured.endswith("| 640 → 1280 | 40% → 90% | 300 W → 500 W |")
    assert failed.startswith("| missing |  |  | no result: see its output.log |")
