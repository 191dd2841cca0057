"""Telemetry: GPUs by something in place of NVML, processes that come and go, a recording."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from tests.host_files import plant, stat_line
from tuner.hosts import counters
from tuner.hosts.observe import Member
from tuner.hosts.procfs import TICKS, Stat
from tuner.hosts.telemetry.gpu import Gpus
from tuner.hosts.telemetry.processes import ProcessAccount, rank_row, reaped_s, snapshot, used
from tuner.hosts.telemetry.recording import Recorder
from tuner.model import HOST_COLUMNS, RANK_COLUMNS, Telemetry


class NVMLError(Exception):
    pass


def nvml_of_three(refused: str) -> Mock:
    """NVML with three GPUs; what is ``refused`` raises, and if nothing is open its end, too."""
    nvml = Mock(NVMLError=NVMLError)
    nvml.nvmlDeviceGetCount = lambda: 3
    nvml.nvmlDeviceGetHandleByIndex = lambda number: number
    nvml.nvmlDeviceGetUUID = lambda gpu: f"GPU-{gpu}{gpu}".encode()
    nvml.nvmlDeviceGetUtilizationRates = lambda gpu: SimpleNamespace(gpu=(100, 50, 0)[gpu])
    nvml.nvmlDeviceGetPowerUsage = lambda gpu: (300_000, 100_000, 50_000)[gpu]  # mW
    nvml.nvmlDeviceGetMemoryInfo = lambda gpu: SimpleNamespace(used=gpu + 1, total=4)
    if refused:
        setattr(nvml, refused, Mock(side_effect=NVMLError("Not Supported")))
    if refused == "nvmlInit":
        nvml.nvmlShutdown.side_effect = NVMLError("Uninitialized")
    return nvml


@pytest.mark.parametrize(
    ("visible", "refused", "columns"),
    [
        (None, "", (0.5, 450.0, 0.75)),
        ("2, 1", "", (0.25, 150.0, 0.75)),
        ("MIG-1", "", (0.5, 450.0, 0.75)),
        ("9", "", (None, None, None)),
        (None, "nvmlDeviceGetPowerUsage", (0.5, None, 0.75)),
        (None, "nvmlInit", (None, None, None)),
    ],
)
def test_gpus_that_a_job_may_use_as_far_as_nvml_tells(
    visible: str | None, refused: str, columns: tuple[float | None, ...]
) -> None:
    nvml = nvml_of_three(refused)
    gpus = Gpus({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}, nvml)
    assert tuple(gpus.columns().values()) == columns
    gpus.close()
    nvml.nvmlShutdown.assert_called_once_with()


def accounts(
    *stats: Stat, waited_s: dict[int, dict[int, float]] | None = None
) -> dict[tuple[int, int], ProcessAccount]:
    waits = waited_s or {}
    return {stat.key: ProcessAccount(0, stat, waits.get(stat.pid, {})) for stat in stats}


def test_a_rank_and_its_child() -> None:
    before = accounts(Stat(10, 9, 1, user_s=1.0, system_s=0.5), Stat(11, 9, 1, user_s=2.0))
    after = accounts(
        *(Stat(10, 9, 1, user_s=2.0, system_s=1.0), Stat(11, 9, 1, user_s=3.0)),
        waited_s={10: {10: 0.5, 12: 0.5}, 11: {11: 2.0}},
    )
    row = rank_row(before, after, 2.0)
    assert row.keys() == RANK_COLUMNS.keys()
    assert row == {
        "own_user_cores": 0.5,
        "own_system_cores": 0.25,
        "own_queue_threads": 0.5,
        "children_cores": 0.5,
        "children_queue_threads": 1.0,
    }


def test_a_new_process_of_an_old_id_counts_whole() -> None:
    before, after = accounts(Stat(10, 9, 1, user_s=50.0)), accounts(Stat(10, 30, 1, user_s=1.0))
    assert used(before, after).user_s == 1.0


def test_every_second_is_counted_once_also_of_a_child_that_ends() -> None:
    looks = [
        accounts(),
        accounts(Stat(1, 9, 1, user_s=1.0), Stat(2, 9, 1, user_s=3.0)),
        accounts(Stat(1, 9, 1, user_s=1.5, reaped_s=4.0)),  # the child has used a second more
        accounts(Stat(1, 9, 1, user_s=1.5, reaped_s=9.0)),  # another one came and went
    ]
    counted_s = [used(*pair).user_s + reaped_s(*pair) for pair in pairwise(looks)]
    assert counted_s == [4.0, 1.5, 5.0]


def test_the_accounts_are_read(tmp_path: Path) -> None:
    pid, supervisor = 1 << 23, (1 << 23) + 9
    rank = Member(pid, 5, 0)
    assert snapshot([rank], str(tmp_path)) == {}, "a process that is gone is passed over"
    waits = {1: "5000 2000000000 3", 2: "1 500000000 1", 3: "odd", 4: "1 2"}
    plant(
        tmp_path,
        {
            f"{pid}/stat": stat_line(pid, started=5, name="a (b) c", parent=supervisor, ticks=50),
            f"{supervisor}/stat": stat_line(supervisor, started=4, ticks=7),
            **{f"{pid}/task/{n}/schedstat": text for n, text in waits.items()},
        },
    )
    accounts = snapshot([rank], str(tmp_path))
    assert accounts.keys() == {(pid, 5), (supervisor, 4)}
    assert accounts[pid, 5].waited_s == {1: 2.0, 2: 0.5}
    assert used({}, accounts) == pytest.approx((57 / TICKS, 0.0, 2.5))


PID = 1 << 23
MEMBERS = [Member(PID, 5, 0), Member(PID + 1, 5, None)]


def process(root: Path, pid: int, ticks: int) -> None:
    plant(root, {f"proc/{pid}/stat": stat_line(pid, started=5, ticks=ticks, pages=3)})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root of a host with one rank."""
    process(tmp_path, PID, 0)
    process(tmp_path, PID + 1, 0)
    plant(tmp_path, {"proc/stat": "cpu0 0 0 0 0\ncpu1 0 0 0 0\nprocs_running 1\n"})
    plant(tmp_path, {"proc/self/schedstat": "5 5 5"})
    return tmp_path


def recorder(root: Path) -> Recorder:
    return Recorder(lambda: MEMBERS, ranks=1, gpus=False, environ={}, root=root)


def test_host_and_ranks_have_their_tracks_without_what_was_used_before(root: Path) -> None:
    recording = recorder(root)
    process(root, PID, 2 * TICKS)
    recording.begin()
    recording.look()
    process(root, PID, 5 * TICKS)
    recording.look()
    host, rank = recording.result(0.001).tracks
    assert (host.rank, rank.rank) == (None, 0)
    assert host.columns.keys() <= HOST_COLUMNS.keys()
    assert rank.columns.keys() == RANK_COLUMNS.keys()
    assert len(host.times_s) == len(rank.times_s) == 2
    first, second = rank.columns["own_user_cores"]
    assert first == 0.0 and second is not None and second > 0


def test_what_a_kernel_does_not_tell_is_a_gap(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(root, {"proc/self/schedstat": "0 0 0"})  # it does not count waiting
    monkeypatch.setattr(counters, "is_of_host", lambda first, last: False)  # /proc/stat is made up
    recording = recorder(root)
    recording.look()
    telemetry = recording.result(0.0)
    host, rank = telemetry.tracks[:2]
    assert host.columns["user_cores"] == rank.columns["own_queue_threads"] == (None,)
    assert host.columns["runnable_threads"] == (1.0,)
    assert "Not recorded: CPUs busy with programs." in telemetry.gaps
    assert any("threads that waited for a CPU" in gap for gap in telemetry.gaps)


def test_without_nvml_only_gpus_are_missing_and_the_gap_says_what_they_need(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    recording = Recorder(lambda: MEMBERS, ranks=1, gpus=True, environ={}, root=root)
    recording.begin()
    recording.look()
    telemetry = recording.result(0.0)
    assert len(telemetry.tracks) == 2
    said = "Not recorded: GPUs. They need: pip install 'runtime-tuner[gpu]'."
    assert said in telemetry.gaps


def test_what_goes_wrong_in_it_is_a_gap() -> None:
    broken = Mock(side_effect=RuntimeError("no way"))
    with Recorder(broken, ranks=1, gpus=False, environ={}) as recording:
        pass
    gap = "The recording broke off: RuntimeError: no way."
    assert recording.telemetry == Telemetry(gaps=(gap,))
