"""The probe in real interpreters: what it reports, that nobody notices it, and how it is read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tuner.hosts import observe
from tuner.hosts.probe import Report, probe_environment, read_reports
from tuner.model import RankView

PROBE = Path(__file__).resolve().parents[2] / "wrappers" / "probe"

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    folder = tmp_path / "a folder/probe"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def run(tmp_path: Path, reports: Path) -> Run:
    """Run Python code as rank 3 with the probe in front of the folders `path`."""

    def run_code(
        code: str, *path: Path, probe: bool = True, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        folders = [str(PROBE)] * probe + [str(folder) for folder in path]
        env = {name: value for name, value in os.environ.items() if "RANK" not in name}
        env |= {"PYTHONPATH": os.pathsep.join(folders), "TUNE_PROBE_DIR": str(reports)}
        env |= {"OMPI_COMM_WORLD_RANK": "3", **environ}
        return subprocess.run(
            [sys.executable, "-c", code],
            env={name: value for name, value in env.items() if value},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run_code


def report(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "rank-3.json").read_text())
    return content


# --- what it reports ---------------------------------------------------------------------


def test_a_bare_program_is_described(run: Run, reports: Path) -> None:
    ran = run("import sys; print('hello'); sys.exit(7)")
    assert (ran.stdout, ran.stderr, ran.returncode) == ("hello\n", "", 7)
    content = report(reports)
    assert (content["rank"], content["errors"]) == (3, [])
    assert content["affinity"] == sorted(os.sched_getaffinity(0))
    assert (content["pools"], content["opencv_threads"], content["mpi"]) == ([], None, None)
    ran = run("raise ValueError('x')")
    assert (ran.returncode, ran.stderr.splitlines()[-1]) == (1, "ValueError: x")
    assert report(reports)["uncaught"] == "ValueError"


def test_a_program_that_sets_its_own_threads_is_seen(run: Run, reports: Path) -> None:
    pytest.importorskip("threadpoolctl")
    code = "import numpy, threadpoolctl; threadpoolctl.threadpool_limits(3)"
    run(code, OPENBLAS_NUM_THREADS="1")
    assert [pool["threads"] for pool in report(reports)["pools"]] == [3]
    pytest.importorskip("cv2")
    for code, threads in (("import cv2", 7), ("import cv2; cv2.setNumThreads(3)", 3)):
        run(code, OPENCV_FOR_THREADS_NUM="7")  # not capped at the number of CPUs
        assert report(reports)["opencv_threads"] == threads


def test_a_library_that_fails_costs_only_its_own_part(run: Run, reports: Path) -> None:
    ran = run("import sys, types; sys.modules['cv2'] = types.ModuleType('cv2')")
    assert (ran.stderr, ran.returncode) == ("", 0)
    assert report(reports)["opencv_threads"] is None
    assert "opencv_threads: AttributeError" in report(reports)["errors"][0]


# --- who reports -------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_do_not_report(method: str, run: Run, reports: Path) -> None:
    code = f"""
import multiprocessing, os, sys
if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    with context.Pool(2) as pool:
        pool.map(abs, [1, 2])
        pool.close()
        pool.join()
    print(os.getpid())
"""
    ran = run(code)
    assert report(reports)["pid"] == int(ran.stdout)


def test_neither_a_forked_child_nor_a_helper_displaces_the_trainer(run: Run, reports: Path) -> None:
    run("import os, sys\nif os.fork() == 0: sys.exit()\nos.wait(); os._exit(0)")
    assert list(reports.iterdir()) == []  # and a program that leaves by os._exit is not seen
    run("import subprocess, sys; subprocess.run([sys.executable, '-c', 'import numpy'])")
    assert len(report(reports)["pools"]) == 1, "a launcher written in Python, around the trainer"


# --- that nobody notices it --------------------------------------------------------------


def test_the_users_own_comes_after_ours(run: Run, reports: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.mine = __file__")
    ran = run("import sitecustomize; print(mine == sitecustomize.__file__)", tmp_path)
    assert ran.stdout == "True\n"
    assert report(reports)["rank"] == 3


@pytest.mark.parametrize(
    "code", ["", "1 / 0", "import not_there", "raise ImportError('x', name='sitecustomize')", "x ="]
)
def test_the_programs_path_and_its_errors_are_as_without_us(
    code: str, run: Run, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    if code:
        (own / "sitecustomize.py").write_text(code)
    program = "import sys; print(sys.path, list(sys.modules))"
    ours, without = run(program, own), run(program, own, probe=False)
    assert (ours.stderr, ours.returncode) == (without.stderr, without.returncode)
    assert ours.stdout.split("]")[0] == without.stdout.split("]")[0]
    # Loaded at the start: the probe itself, and nothing else that was not there.
    assert code or not {"'json'", "'ctypes'"} & set(ours.stdout.split(", "))


# --- what is read of it ------------------------------------------------------------------


def test_its_report_comes_back_whole(run: Run, reports: Path) -> None:
    environ = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "0"}
    said = run("import numpy; print(numpy.__version__)", OPENBLAS_NUM_THREADS="1", **environ)
    (read,) = read_reports(reports).values()
    view = read.view
    assert (view.rank, view.world_size, view.blas_threads, read.is_program) == (0, 4, 1, True)
    assert view.affinity == tuple(sorted(os.sched_getaffinity(0)))
    assert [library[:5] for library, _ in view.pools] == ["numpy"]
    python = ".".join(map(str, sys.version_info[:3]))
    assert dict(view.packages) == {"python": python, "numpy": said.stdout.strip()}
