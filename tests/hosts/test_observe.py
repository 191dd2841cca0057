from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.host_files import plant, stat_line
from tuner.hosts.observe import RANK_VARIABLES, Watcher
from tuner.hosts.probe import probe_folder
from tuner.model import Observation, RankView

#: No process has such an id: the kernel's PID_MAX_LIMIT is 2^22.
FAR = 1 << 23

NUMPY = "/venv/lib/numpy.libs/libscipy_openblas64_-1.so"
OPENCV = "/venv/lib/opencv_python_headless.libs/libopenblasp-r0.so"


class Proc:
    """A folder in the form of /proc."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def add(
        self,
        pid: int,
        *,
        started: int = 0,
        threads: int = 1,
        name: str = "python",
        parent: int = 1,
        **environ: object,
    ) -> None:
        stat = stat_line(pid, started=started or pid, name=name, parent=parent, threads=threads)
        text = "".join(f"{key}={value}\0" for key, value in environ.items())
        plant(self.root, {f"{pid}/stat": stat, f"{pid}/environ": text})

    def remove(self, pid: int) -> None:
        for name in ("stat", "environ"):
            (self.root / str(pid) / name).unlink()


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path / "proc")


@pytest.fixture
def watcher(tmp_path: Path, proc: Proc) -> Watcher:
    return Watcher(tmp_path, proc.root)


def report(folder: Path, rank: int, **content: Any) -> None:
    probe_folder(folder).mkdir(exist_ok=True)
    (probe_folder(folder) / f"rank-{rank}.json").write_text(json.dumps({"rank": rank, **content}))


def ranks(observation: Observation) -> list[tuple[int, int, int]]:
    return [(rank.rank, rank.threads, rank.children) for rank in observation.ranks]


# --- /proc -------------------------------------------------------------------------------


def test_ranks_are_known_by_their_variable(proc: Proc, watcher: Watcher) -> None:
    proc.add(FAR + 10, name="mpirun) (x")
    for rank, variable in enumerate(RANK_VARIABLES):
        ours: dict[str, Any] = {variable: rank}
        proc.add(FAR + 11 + rank, threads=3 + rank, **ours)
    watcher.sample(range(FAR + 10, FAR + 14))
    assert ranks(watcher.result()) == [(0, 3, 0), (1, 4, 0), (2, 5, 0)]


def test_torchruns_variables_count_in_what_it_has_started(proc: Proc, watcher: Watcher) -> None:
    """Clusters set them for every process of a job."""
    one: dict[str, Any] = {"RANK": 1, "WORLD_SIZE": 2, "TORCHELASTIC_RUN_ID": "a"}
    both: dict[str, Any] = {**one, "PMI_RANK": 0, "PMI_SIZE": 3}
    proc.add(FAR + 10, RANK=0, WORLD_SIZE=4)
    proc.add(FAR + 11, **one)
    proc.add(FAR + 12, **both)
    watcher.sample([FAR + 10, FAR + 11, FAR + 12])
    seen = watcher.result().ranks
    assert [(rank.rank, rank.world_size) for rank in seen] == [(0, 3), (1, 2)]


def test_processes_with_the_same_rank_are_its_children(proc: Proc, watcher: Watcher) -> None:
    proc.add(FAR + 20, started=5, OMPI_COMM_WORLD_RANK=0)  # a worker with a lower id than its rank
    proc.add(FAR + 30, started=3, OMPI_COMM_WORLD_RANK=0, OMPI_COMM_WORLD_SIZE=1)
    proc.add(FAR + 31, started=6, threads=9, OMPI_COMM_WORLD_RANK=0)
    watcher.sample([FAR + 20, FAR + 30, FAR + 31])
    proc.remove(FAR + 20)
    watcher.sample([FAR + 20, FAR + 30, FAR + 31])
    (rank,) = watcher.result().ranks
    assert (rank.threads, rank.children, rank.world_size) == (9, 2, 1)


def test_an_exception_that_nothing_caught_ended_the_rank_unless_the_rank_went_on(
    tmp_path: Path, proc: Proc, watcher: Watcher
) -> None:
    """The output may not end in the traceback: what Python had buffered comes below it."""
    proc.add(FAR + 10, name="bash", started=100, OMPI_COMM_WORLD_RANK=0)
    proc.add(FAR + 11, name="python", started=101, OMPI_COMM_WORLD_RANK=0)
    report(tmp_path, 0, uncaught="ValueError", ended_s=2.005)
    watcher.sample([FAR + 10, FAR + 11])
    (rank,) = watcher.result().ranks
    assert rank.uncaught == "ValueError"
    # It starts in the same tick of the kernel's clock.
    proc.add(FAR + 12, name="fallback", started=200, OMPI_COMM_WORLD_RANK=0)
    watcher.sample([FAR + 10, FAR + 12])
    (rank,) = watcher.result().ranks
    assert rank.uncaught == ""


def test_children_that_wrote_over_their_environment_are_their_ranks(
    proc: Proc, watcher: Watcher
) -> None:
    proc.add(FAR + 9, name="mpirun")
    proc.add(FAR + 10, parent=FAR + 9, name="stress-ng", PMI_RANK=0)
    proc.add(FAR + 11, parent=FAR + 10, name="stress-ng-matrix")
    proc.add(FAR + 12, parent=FAR + 11, name="stress-ng-matrix")
    watcher.sample([FAR + 12, FAR + 11, FAR + 10, FAR + 9])
    assert ranks(watcher.result()) == [(0, 1, 2)]
    assert watcher.ranks() == {FAR + 9: None, FAR + 10: 0, FAR + 11: 0, FAR + 12: 0}


def test_the_most_seen_is_kept_also_of_children_that_outlive_their_rank(
    proc: Proc, watcher: Watcher
) -> None:
    for threads in (1, 8, 2):
        proc.add(FAR + 10, threads=threads, PMI_RANK=0)
        watcher.sample([FAR + 10])
    proc.remove(FAR + 10)
    proc.add(FAR + 11, PMI_RANK=0)
    watcher.sample([FAR + 10, FAR + 11])
    assert ranks(watcher.result()) == [(0, 8, 1)]


def test_a_process_may_become_a_rank_by_exec(proc: Proc, watcher: Watcher) -> None:
    proc.add(FAR + 10)
    watcher.sample([FAR + 10])
    assert watcher.result() == Observation()
    proc.add(FAR + 10, PMI_RANK=0, PMI_SIZE=4)
    watcher.sample([FAR + 10])
    assert watcher.result().ranks[0].world_size == 4


def test_the_affinity_is_that_of_the_rank(proc: Proc, watcher: Watcher) -> None:
    proc.add(os.getpid(), PMI_RANK=0)
    watcher.sample([os.getpid()])
    assert watcher.result().ranks[0].affinity == tuple(sorted(os.sched_getaffinity(0)))


@pytest.mark.parametrize(
    ("maps", "mapped", "has_opencv"),
    [
        (None, False, False),  # not ours to read
        ("7f00-7f01 r-xp 0 08:01 9 /usr/lib/libgomp.so.1", True, False),
        ("7f00-7f01 r-xp 0 08:01 9 /usr/lib/libopencv_core.so.406", True, True),
    ],
)
def test_the_libraries_of_a_program_without_python_are_seen(
    proc: Proc, watcher: Watcher, maps: str | None, mapped: bool, has_opencv: bool
) -> None:
    proc.add(FAR + 1, name="sh", PMI_RANK=0)
    proc.add(FAR + 2, name="solver", parent=FAR + 1, PMI_RANK=0)
    if maps is not None:
        plant(proc.root, {f"{FAR + 2}/maps": maps})
    watcher.sample([FAR + 1, FAR + 2])
    (view,) = watcher.result().ranks
    assert (view.mapped, view.opencv_loaded) == (mapped, has_opencv)


def run_program(proc: Proc, pid: int, exe: Path, *arguments: str, library: Path) -> None:
    """Have a process of rank 0 run a program that has a library mapped."""
    files = (
        f"{i}-{i + 1} r-xp 0 08:01 {f.stat().st_ino} {f}" for i, f in enumerate((exe, library))
    )
    command = "".join(f"{argument}\0" for argument in ("solver", *arguments))
    plant(proc.root, {f"{pid}/maps": "\n".join(files), f"{pid}/cmdline": command})
    proc.add(pid, name=exe.name, PMI_RANK=0)
    (proc.root / f"{pid}/exe").symlink_to(exe)
    (proc.root / f"{pid}/cwd").symlink_to(exe.parent)


@pytest.mark.parametrize(
    ("exe", "arguments", "files", "ignores"),
    [
        ("solver", ("job.sh",), {}, True),
        ("solver", (), {"solver": "\0OMP_NUM_THREADS\0"}, False),  # linked statically, or its own
        ("solver", (), {"lib.so": "\0MKL_NUM_THREADS\0"}, False),
        ("python3.11", (), {}, False),  # its modules may read anything
        ("sh", ("-c", "./solver"), {}, True),
        ("sh", ("-ec", "./solver -t $OMP_NUM_THREADS"), {}, False),
        ("bash", ("job.sh",), {}, True),
        ("bash", ("job.sh",), {"job.sh": "./solver -t ${OMP_NUM_THREADS:-1}"}, False),
        ("bash", ("job.sh",), {"job.sh": "set -e\n  . ./settings.sh\n./solver"}, False),
        ("bash", (), {}, False),  # it reads its script from a pipe
    ],
)
def test_a_program_ignores_the_number_of_threads_if_nothing_that_it_runs_names_the_variable(
    tmp_path: Path,
    proc: Proc,
    watcher: Watcher,
    exe: str,
    arguments: tuple[str, ...],
    files: dict[str, str],
    ignores: bool,
) -> None:
    files = {exe: "ELF", "lib.so": "ELF", "job.sh": "exec ./solver\n", **files}
    plant(tmp_path / "bin", files)
    library = tmp_path / "bin/lib.so"
    run_program(proc, FAR + 1, tmp_path / "bin" / exe, *arguments, library=library)
    watcher.sample([FAR + 1])
    (view,) = watcher.result().ranks
    assert view.ignores_thread_variables is ignores


def test_a_library_that_was_replaced_meanwhile_may_read_the_number_of_threads(
    tmp_path: Path, proc: Proc, watcher: Watcher
) -> None:
    plant(tmp_path, {"solver": "ELF", "lib.so": "ELF", "new.so": "ELF"})
    run_program(proc, FAR + 1, tmp_path / "solver", library=tmp_path / "lib.so")
    watcher.sample([FAR + 1])
    assert watcher.result().ranks[0].ignores_thread_variables
    (tmp_path / "new.so").replace(tmp_path / "lib.so")
    assert not watcher.result().ranks[0].ignores_thread_variables


# --- the probe's reports -----------------------------------------------------------------


def test_reports_join_what_was_seen(tmp_path: Path, proc: Proc, watcher: Watcher) -> None:
    proc.add(FAR + 10, threads=4, PMI_RANK=0, PMI_SIZE=2)
    watcher.sample([FAR + 10])
    pools = [
        {"library": OPENCV, "threads": 1, "built_for": 128},
        {"library": NUMPY, "threads": 2, "built_for": 64},
        {"library": "/venv/lib/torch.libs/libgomp.so", "threads": 3, "built_for": None},
    ]
    mpi = {"world_size": 1, "library": "Open MPI v5"}
    report(tmp_path, 0, pools=pools, opencv_threads=5, mpi=mpi, affinity=[7])
    assert watcher.result().ranks == (
        RankView(
            rank=0,
            threads=4,
            children=0,
            affinity=(7,),
            blas_threads=2,
            opencv_threads=5,
            world_size=1,
            mpi_library="Open MPI v5",
            pools=(
                ("opencv_python_headless.libs/libopenblasp-r0.so", 1),
                ("numpy.libs/libscipy_openblas64_-1.so", 2),
                ("torch.libs/libgomp.so", 3),
            ),
            blas_limit=64,
            reported=True,
        ),
    )


def test_the_size_of_the_world_is_mpis_word_before_the_launchers(
    tmp_path: Path, watcher: Watcher
) -> None:
    report(tmp_path, 0, launcher_size=4, mpi={"world_size": 1, "library": "x"})
    report(tmp_path, 1, launcher_size=4, mpi=None)
    assert [rank.world_size for rank in watcher.result().ranks] == [1, 4]


def test_a_helpers_report_is_not_that_of_the_program(
    tmp_path: Path, proc: Proc, watcher: Watcher
) -> None:
    """A shell or C++ rank may run a small Python: what that lacks, the rank may have."""
    for rank in range(3):
        proc.add(FAR + 10 * rank, PMI_RANK=rank, PMI_SIZE=3)
    watcher.sample([FAR, FAR + 10, FAR + 20])
    report(tmp_path, 0, pid=FAR, pools=[], mpi=None)
    report(tmp_path, 1, pid=FAR + 11, pools=[], mpi=None)
    report(tmp_path, 2, pid=FAR + 21, pools=[{"library": NUMPY, "threads": 1}])
    assert [rank.reported for rank in watcher.result().ranks] == [True, False, True]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
KEYS = st.sampled_from(["rank", "pools", "mpi", "affinity", "opencv_threads"])
REPORTS = st.dictionaries(KEYS, JSON | st.lists(st.dictionaries(KEYS, JSON), max_size=2))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary() | REPORTS.map(lambda content: json.dumps({"rank": 0, **content}).encode()))
def test_no_report_can_do_harm(tmp_path: Path, content: bytes) -> None:
    probe_folder(tmp_path).mkdir(exist_ok=True)
    (probe_folder(tmp_path) / "rank-0.json").write_bytes(content)
    assert len(Watcher(tmp_path).result().ranks) <= 1
