"""The probe in real interpreters: what it reports, what its thread sees, and that nobody minds."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.live_bench import PROBE, probe_module, run_rank
from tuner.hosts.probe import read_phases, read_reports
from tuner.model import PhaseShare

rank_phases = probe_module("rank_phases")

Run = Callable[..., Any]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a program as a rank whose probe reports to ``probe``."""
    (tmp_path / "probe").mkdir()
    return lambda code, *options, **more: run_rank(
        tmp_path, code, *options, **{"TUNE_PROBE_DIR": str(tmp_path / "probe"), **more}
    )


def report(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "probe/rank-0.json").read_text())
    return content


def test_its_report_comes_back_whole(run: Run, tmp_path: Path) -> None:
    ran = run("import numpy, sys; print(numpy.__version__); sys.exit(7)", OPENBLAS_NUM_THREADS="1")
    assert (ran.stderr, ran.returncode) == ("", 7)
    (read,) = read_reports(tmp_path / "probe").values()
    view = read.view
    assert (view.rank, view.world_size, view.blas_threads, read.is_program) == (0, 1, 1, True)
    assert view.affinity == tuple(sorted(os.sched_getaffinity(0)))
    assert [library[:5] for library, _ in view.pools] == ["numpy"]
    python = ".".join(map(str, sys.version_info[:3]))
    assert dict(view.packages) == {"python": python, "numpy": ran.stdout.strip()}
    ran = run("import numpy; raise ValueError('x')")
    assert (ran.returncode, ran.stderr.splitlines()[-1]) == (1, "ValueError: x")
    assert report(tmp_path)["uncaught"] == "ValueError"


def test_a_program_that_sets_its_own_threads_is_seen(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("threadpoolctl")
    code = "import numpy, threadpoolctl; threadpoolctl.threadpool_limits(3)"
    run(code, OPENBLAS_NUM_THREADS="1")
    assert [pool["threads"] for pool in report(tmp_path)["pools"]] == [3]
    pytest.importorskip("cv2")
    for code, threads in (("import cv2", 7), ("import cv2; cv2.setNumThreads(3)", 3)):
        run(code, OPENCV_FOR_THREADS_NUM="7")  # not capped at the number of CPUs
        assert report(tmp_path)["opencv_threads"] == threads


def test_a_library_that_fails_costs_only_its_own_part(run: Run, tmp_path: Path) -> None:
    ran = run("import sys, types; sys.modules['cv2'] = types.ModuleType('cv2')")
    assert (ran.stderr, ran.returncode) == ("", 0)
    assert report(tmp_path)["opencv_threads"] is None
    assert "opencv_threads: AttributeError" in report(tmp_path)["errors"][0]


WORKERS = """
import multiprocessing, os
if __name__ == "__main__":
    with multiprocessing.get_context("{}").Pool(2) as pool:
        pool.map(abs, [1, 2])
        pool.close()
        pool.join()
    print(os.getpid())
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_do_not_report(method: str, run: Run, tmp_path: Path) -> None:
    ran = run(WORKERS.format(method))
    assert report(tmp_path)["pid"] == int(ran.stdout)


def test_neither_a_child_nor_a_helper_displaces_the_trainer(run: Run, tmp_path: Path) -> None:
    run("import os, sys\nif os.fork() == 0: sys.exit()\nos.wait(); os._exit(0)")
    assert not any((tmp_path / "probe").glob("*.json")), "who leaves by os._exit is not seen"
    run("import subprocess, sys; subprocess.run([sys.executable, '-c', 'import numpy'])")
    assert len(report(tmp_path)["pools"]) == 1, "a launcher written in Python, around the trainer"


@pytest.mark.parametrize(
    "code",
    ["", "import builtins; builtins.mine = 1", "1 / 0", "import not_there", "x =",
     "raise ImportError('x', name='sitecustomize')"],
)  # fmt: skip
def test_path_and_sitecustomize_are_as_without_us(code: str, run: Run, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    if code:
        (own / "sitecustomize.py").write_text(code)
    program = "import builtins, sys; print(sys.path, hasattr(builtins, 'mine'), list(sys.modules))"
    ours = run(program, PYTHONPATH=f"{PROBE}:{own}")
    without = run(program, PYTHONPATH=str(own))
    assert (ours.stderr, ours.returncode) == (without.stderr, without.returncode)
    assert ours.stdout.split("[")[:2] == without.stdout.split("[")[:2]
    # Loaded at the start: the probe itself, and nothing else that was not there.
    assert code or not {"'json'", "'ctypes'"} & set(ours.stdout.split(", "))


SPIN = """
import os, sys, time
def spin(seconds=0.6):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))
"""


def seen(folder: Path) -> dict[str, PhaseShare]:
    shares = read_phases(folder)
    assert {share.rank for share in shares} == {0}
    assert sum(share.share for share in shares) == pytest.approx(1)
    return {share.phase: share for share in shares}


def test_the_programs_own_work_is_told_from_its_loading(run: Run, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time; time.sleep(1)")  # imports do not count
    ran = run(SPIN + "def load_batch(): time.sleep(0.6)\nspin(); load_batch(); import slow")
    assert (ran.stdout, ran.stderr, ran.returncode) == ("", "", 0)
    found = seen(tmp_path)
    assert set(found) >= {"compute", "loader"}
    # On a busy machine a sample comes late, and is counted for what ran just before it.
    assert found["loader"].blocked > 0.5 * found["loader"].share
    assert found["compute"].running + found["compute"].queued > 0.5 * found["compute"].share
    assert found["loader"].where == "train.py:7 load_batch"
    assert found["compute"].where in {"train.py:5 spin", "train.py:6 spin"}


C10D = "torch/distributed/distributed_c10d.py"


@pytest.mark.parametrize(
    ("file", "name", "phase"),
    [
        ("chainer/iterators/serial.py", "__next__", "loader"),
        ("chainermn/communicators/x.py", "bcast", "exchange"),
        (C10D, "all_reduce", "exchange"),
        (C10D, "init_process_group", None),  # it belongs to the start
        ("multiprocessing/pool.py", "wait", None),  # a pool shares out any work
    ],
)
def test_a_library_is_known_by_its_files(
    file: str, name: str, phase: str | None, run: Run, tmp_path: Path
) -> None:
    code = f"def sleep(): time.sleep(0.6)\ndef {name}(): sleep()"
    run(SPIN + f"exec(compile({code!r}, '/x/site-packages/{file}', 'exec'))\n{name}()\nspin()")
    others = {name: share.where for name, share in seen(tmp_path).items() if name != "compute"}
    assert others == ({phase: f"train.py:8 {name}"} if phase else {})


def test_a_method_without_a_frame_is_read_in_the_source(run: Run, tmp_path: Path) -> None:
    code = """
import types
sys.modules["mpi4py.MPI"] = types.ModuleType("MPI")
class comm:  # sleeps in C, as MPI does
    Allreduce = time.sleep
comm.Allreduce(0.6)
"""
    run(SPIN + code)
    assert seen(tmp_path)["exchange"].where == "train.py:12 allreduce"


#: As of 3.12 Python warns of a fork with threads: those that are installed besides this one.
PYTHONS = [sys.executable] + [
    str(path) for version in ("12", "13", "14")
    for path in sorted((Path.home() / ".pyenv" / "versions").glob(f"3.{version}.*/bin/python"))
]  # fmt: skip


@pytest.mark.parametrize("python", PYTHONS)
def test_it_is_no_thread_of_pythons_nor_of_a_forked_child(python: str, run: Run) -> None:
    code = """
import threading
spin(0.2)
for _ in range(50):
    if os.fork() == 0:
        os._exit(threading.active_count() + len(os.listdir("/proc/self/task")))
    print(os.wait()[1] >> 8, threading.active_count())
"""
    ran = run(SPIN + code, "-W", "error", python=python)
    assert (ran.stdout, ran.stderr) == ("2 1\n" * 50, "")


def test_signals_are_the_programs(run: Run) -> None:
    code = """
import signal
masks = {line.split()[1] for task in os.listdir("/proc/self/task")
         for line in open(f"/proc/self/task/{task}/status") if line.startswith("SigBlk")}
print(sorted(masks))
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
os.kill(os.getpid(), signal.SIGUSR1)
print(signal.sigwait([signal.SIGUSR1]))
"""
    ran = run(SPIN + code)
    assert ran.stdout.splitlines()[0].startswith("['0000000000000000', 'f")
    assert ran.stdout.splitlines()[1] == "10" or "SIGUSR1" in ran.stdout.splitlines()[1]


def test_the_end_is_the_programs_and_a_folder_that_vanishes_no_obstacle(run: Run) -> None:
    ran = run(SPIN + "import shutil; shutil.rmtree('probe'); spin(1.3); os._exit(7)")
    assert (ran.stdout, ran.stderr, ran.returncode) == ("", "", 7)


@pytest.mark.parametrize(
    ("line", "method"),
    [
        ("    comm.Allreduce(a, b)", "allreduce"),
        ("x = self.comm.bcast(f(a), root=0)", "bcast"),
        ("MPI.Request.Waitall(requests)", "waitall"),
        ("self.g.ibcast(x)", "ibcast"),
        ("reqs[0].wait()", "wait"),
        ("comm_world2.gather(x)", "gather"),
        ("command.wait(1)", None),
        ("np.add.reduce(x)", None),
        ("y = f(x)  # comm.Allreduce(a)", None),
        ("Allreduce(3)", None),
    ],
)
def test_lines_that_call_mpi(line: str, method: str | None) -> None:
    assert rank_phases.mpi_call(line) == method
