"""A recording on a host made of files, and the thread that makes one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.host_files import plant, stat_line
from tuner.hosts import counters
from tuner.hosts.observe import Member
from tuner.hosts.procfs import TICKS
from tuner.hosts.telemetry.recording import Recorder
from tuner.model import HOST_COLUMNS, RANK_COLUMNS, Telemetry

PID = 1 << 23
MEMBERS = [Member(PID, 5, 0), Member(PID + 1, 5, None)]


def process(root: Path, pid: int, ticks: int) -> None:
    plant(root, {f"proc/{pid}/stat": stat_line(pid, started=5, ticks=ticks, pages=3)})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root of a host with one rank."""
    process(tmp_path, PID, 0)
    process(tmp_path, PID + 1, 0)
    plant(
        tmp_path,
        {
            "proc/stat": "cpu0 0 0 0 0\ncpu1 0 0 0 0\nprocs_running 1\n",
            "proc/self/schedstat": "5 5 5",
        },
    )
    return tmp_path


def recorder(root: Path = Path("/"), members: list[Member] | None = None) -> Recorder:
    return Recorder(lambda: members or [], ranks=1, gpus=False, environ={}, root=root)


def test_host_and_ranks_have_their_tracks_without_what_was_used_before(root: Path) -> None:
    recording = recorder(root, MEMBERS)
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


def test_what_the_kernel_does_not_tell_is_a_gap(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(root, {"proc/self/schedstat": "0 0 0"})  # it does not count waiting
    monkeypatch.setattr(counters, "is_of_host", lambda first, last: False)  # /proc/stat is made up
    recording = recorder(root, MEMBERS)
    recording.look()
    telemetry = recording.result(0.0)
    host, rank = telemetry.tracks[:2]
    assert host.columns["user_cores"] == rank.columns["own_queue_threads"] == (None,)
    assert host.columns["runnable_threads"] == (1.0,)
    assert "Not recorded: CPUs busy with programs." in telemetry.gaps
    assert any("threads that waited for a CPU" in gap for gap in telemetry.gaps)


def test_what_goes_wrong_in_it_is_a_gap() -> None:
    def broken() -> list[Member]:
        raise RuntimeError("no way")

    with Recorder(broken, ranks=1, gpus=False, environ={}) as recording:
        pass
    gap = "The recording broke off: RuntimeError: no way."
    assert recording.telemetry == Telemetry(gaps=(gap,))
