"""What is seen of ranks: from a /proc made for the test, and by the reports of the probe."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.host_files import plant, stat_line
from tuner.hosts.observe import RANK_VARIABLES, Watcher
from tuner.hosts.probe import probe_folder, read_phases
from tuner.model import Observation, RankView

#: No process has such an id: the kernel's PID_MAX_LIMIT is 2^22.
FAR = 1 << 23

NUMPY = "/venv/lib/numpy.libs/libscipy_openblas64_-1.so"
OPENCV = "/venv/lib/opencv_python_headless.libs/libopenblasp-r0.so"


class Proc:
    """Processes of a launch, in a folder in the form of /proc, and what is seen of them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / "proc"
        self.watcher = Watcher(folder, self.root)

    def add(self, pid: int, **more: Any) -> None:
        """Add a process, of which is said what ``stat_line`` takes, and its variables."""
        variables = [f"{name}={value}\0" for name, value in more.items() if name.isupper()]
        stat = {name: value for name, value in more.items() if not name.isupper()}
        files = {"stat": stat_line(pid, **{"started": pid, **stat}), "environ": "".join(variables)}
        plant(self.root / str(pid), files)

    def report(self, rank: int, **content: Any) -> None:
        text = json.dumps({"rank": rank, **content})
        plant(probe_folder(self.folder), {f"rank-{rank}.json": text})

    def ranks(self, *pids: int) -> tuple[RankView, ...]:
        """The ranks, after a look at these processes."""
        self.watcher.sample(pids)
        return self.watcher.result().ranks


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


MPI: dict[str, Any] = {"OMPI_COMM_WORLD_RANK": 0, "OMPI_COMM_WORLD_SIZE": 1}
TORCHRUN: dict[str, Any] = {"RANK": 1, "WORLD_SIZE": 2, "TORCHELASTIC_RUN_ID": "a"}


@pytest.mark.parametrize(
    ("processes", "ranks"),
    [
        ([{"name": "mpirun) (x"}], []),
        *(([{}, {variable: 2, "threads": 3}], [(2, 3, 0, None)]) for variable in RANK_VARIABLES),
        # Clusters set torchrun's for every process of a job: they count in what it has started.
        ([{"RANK": 0, "WORLD_SIZE": 4}, TORCHRUN], [(1, 1, 0, 2)]),
        ([{**TORCHRUN, "PMI_RANK": 0, "PMI_SIZE": 3}], [(0, 1, 0, 3)]),
        # A worker with a lower id than its rank, and one with more threads.
        ([{**MPI, "started": 9}, {**MPI, "started": 3}, {**MPI, "threads": 9}], [(0, 9, 2, 1)]),
        # Children that wrote over their environment.
        ([{}, {**MPI, "parent": FAR}, {"parent": FAR + 1}, {"parent": FAR + 2}], [(0, 1, 2, 1)]),
    ],
)
def test_ranks_and_their_children_are_known_by_a_variable(
    proc: Proc, processes: list[dict[str, Any]], ranks: list[tuple[int, ...]]
) -> None:
    for pid, process in enumerate(processes, FAR):
        proc.add(pid, **{"started": pid, **process})
    views = proc.ranks(*reversed(range(FAR, FAR + len(processes))))
    assert [(rank.rank, rank.threads, rank.children, rank.world_size) for rank in views] == ranks


def test_the_most_seen_is_kept_and_a_process_may_become_a_rank_by_exec(proc: Proc) -> None:
    proc.add(os.getpid())
    proc.watcher.sample([os.getpid()])
    assert proc.watcher.result() == Observation()
    for threads in (1, 8, 2):
        proc.add(os.getpid(), threads=threads, PMI_RANK=0, PMI_SIZE=4)
        (rank,) = proc.ranks(os.getpid())
    assert (rank.threads, rank.world_size) == (8, 4)
    assert rank.affinity == tuple(sorted(os.sched_getaffinity(0)))


def test_an_exception_that_nothing_caught_ended_the_rank_unless_it_went_on(proc: Proc) -> None:
    """The output may not end in the traceback: what Python had buffered comes below it."""
    proc.add(FAR + 10, name="bash", started=100, OMPI_COMM_WORLD_RANK=0)
    proc.report(0, uncaught="ValueError", ended_s=2.005)
    assert [rank.uncaught for rank in proc.ranks(FAR + 10)] == ["ValueError"]
    # It starts in the same tick of the kernel's clock.
    proc.add(FAR + 12, name="fallback", started=200, OMPI_COMM_WORLD_RANK=0)
    assert [rank.uncaught for rank in proc.ranks(FAR + 10, FAR + 12)] == [""]


@pytest.mark.parametrize(
    ("libraries", "mapped", "has_opencv", "ignores"),
    [
        ([], False, False, False),  # not ours to read
        (["/bin/solver", "/lib/libc.so.6"], True, False, True),
        (["/bin/solver"], True, False, False),  # linked statically: it may hold anything
        (["/bin/solver", "/lib/libc.so.6", "/lib/libgomp.so.1"], True, False, False),
        (["/lib/libc.so.6", "/opt/nvidia/libnvomp.so"], True, False, False),
        (["/lib/libc.so.6", "/opt/cray/libsci_cray.so.6"], True, False, False),
        (["/lib/libc.so.6", "/usr/lib/libompitrace.so.40"], True, False, True),
        (["/usr/bin/python3.11", "/lib/libc.so.6"], True, False, False),  # its modules may
        (["/lib/libc.so.6", "/lib/libopencv_core.so.406"], True, True, True),
    ],
)
def test_the_libraries_of_a_program_without_python_are_seen(
    proc: Proc, libraries: list[str], mapped: bool, has_opencv: bool, ignores: bool
) -> None:
    proc.add(FAR + 2, name="solver", PMI_RANK=0)
    lines = (f"7f00-7f01 r-xp 0 08:01 9 {library}" for library in libraries)
    plant(proc.root, {f"{FAR + 2}/maps": "\n".join(lines)})
    (view,) = proc.ranks(FAR + 2)
    assert (view.mapped, view.opencv_loaded) == (mapped, has_opencv)
    assert view.ignores_thread_variables == ignores


def test_what_a_worker_loads_briefly_is_seen_and_what_is_hidden_may_be_threaded(proc: Proc) -> None:
    proc.add(FAR + 2, PMI_RANK=0)
    libc, cv2 = (f"7f00-7f01 r-xp 0 08:01 9 /lib/{name}\n" for name in ("libc.so.6", "cv2.so"))
    for maps in (libc, libc, libc + cv2, libc):
        plant(proc.root, {f"{FAR + 2}/maps": maps})
        (view,) = proc.ranks(FAR + 2)
    assert (view.opencv_loaded, view.ignores_thread_variables) == (True, True)
    proc.add(FAR + 3, PMI_RANK=0)  # its maps are not ours to read
    (view,) = proc.ranks(FAR + 2, FAR + 3)
    assert not view.ignores_thread_variables


def test_reports_join_what_was_seen(proc: Proc) -> None:
    proc.add(FAR + 10, threads=4, PMI_RANK=0, PMI_SIZE=2)
    pools = [
        {"library": OPENCV, "threads": 1, "built_for": 128},
        {"library": NUMPY, "threads": 2, "built_for": 64},
        {"library": "/venv/lib/torch.libs/libgomp.so", "threads": 3, "built_for": None},
    ]
    mpi = {"world_size": 1, "library": "Open MPI v5"}
    proc.report(0, pools=pools, opencv_threads=5, mpi=mpi, affinity=[7], launcher_size=4)
    assert proc.ranks(FAR + 10) == (
        RankView(
            rank=0,
            threads=4,
            children=0,
            affinity=(7,),
            blas_threads=2,
            opencv_threads=5,
            world_size=1,  # MPI's word before the launcher's
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


def test_a_helpers_report_is_not_that_of_the_program(proc: Proc) -> None:
    """A shell or C++ rank may run a small Python: what that lacks, the rank may have."""
    for rank in range(3):
        proc.add(FAR + 10 * rank, PMI_RANK=rank, PMI_SIZE=3)
    proc.report(0, pid=FAR, pools=[], mpi=None)
    proc.report(1, pid=FAR + 11, pools=[], mpi=None)
    proc.report(2, pid=FAR + 21, pools=[{"library": NUMPY, "threads": 1}])
    views = proc.ranks(FAR, FAR + 10, FAR + 20)
    assert [rank.reported for rank in views] == [True, False, True]


def test_files_of_its_own_are_no_files_that_it_writes(proc: Proc) -> None:
    proc.add(2)
    (proc.root / "2/fd").mkdir()
    files = (f"{proc.folder}/out/log", "/tmp/tune-6f1b328ee73a6b55/hwloc.sm", "/home/me/model.pt")
    for number, path in enumerate(files):
        (proc.root / f"2/fd/{number}").symlink_to(path)
    proc.watcher.sample([2])
    assert proc.watcher.result().written == ("/home/me/model.pt",)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("rank-0.1.phases", text) for text in (
            "", "loader", "sleep\t1\t1\t1\tx", "loader\t1\t1\tx", "loader\t-1\t2\t0\t",
            "loader\tnan\t0\t0\t", "compute\t0\t0\t0\t", "loader\t1e308\t1e308\t1e308\t",
        )),
        ("rank-x.1.phases", "compute\t1\t0\t0\t\n"),
        *(("rank-0.json", text) for text in (
            "", "[", "[" * 9000, "\xff", "[0]", '{"pid": 3}', '{"rank": "0"}', '{"rank": 1e99}',
            '{"rank": 0, "pools": [{"threads": 1}]}', '{"rank": 0, "mpi": {"world_size": "2"}}',
        )),
    ],
)  # fmt: skip
def test_what_the_probe_did_not_write_says_nothing(tmp_path: Path, name: str, text: str) -> None:
    plant(tmp_path, {f"probe/{name}": text})
    assert read_phases(tmp_path) == () and Watcher(tmp_path).result() == Observation()
