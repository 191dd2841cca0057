"""The probe in real interpreters: what it reports, and that nobody notices it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.live_bench import PROBE, run_rank
from tuner.hosts.probe import read_reports

Run = Callable[..., Any]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a program as a rank whose probe reports to ``probe``."""
    (tmp_path / "probe").mkdir()
    return lambda code, **environ: run_rank(
        tmp_path, code, **{"TUNE_PROBE_DIR": str(tmp_path / "probe"), **environ}
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


def test_neither_a_forked_child_nor_a_helper_displaces_the_trainer(
    run: Run, tmp_path: Path
) -> None:
    run("import os, sys\nif os.fork() == 0: sys.exit()\nos.wait(); os._exit(0)")
    assert not any((tmp_path / "probe").glob("*.json")), "who leaves by os._exit is not seen"
    run("import subprocess, sys; subprocess.run([sys.executable, '-c', 'import numpy'])")
    assert len(report(tmp_path)["pools"]) == 1, "a launcher written in Python, around the trainer"


@pytest.mark.parametrize(
    "code",
    ["", "import builtins; builtins.mine = 1", "1 / 0", "import not_there", "x =",
     "raise ImportError('x', name='sitecustomize')"],
)  # fmt: skip
def test_the_programs_path_and_its_own_sitecustomize_are_as_without_us(
    code: str, run: Run, tmp_path: Path
) -> None:
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
