"""A recording on a host made of files, and the thread that makes one."""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.host_files import plant, stat_line
from tuner.hosts import counters
from tuner.hosts.observe import Member
from tuner.hosts.procfs import TICKS
from tuner.hosts.telemetry import Sampler
from tuner.hosts.telemetry.sampler import (
    LEAST_POINTS,
    MOST_POINTS,
    Point,
    Recording,
    Series,
    joined,
    points_for,
)
from tuner.model import HOST_COLUMNS, RANK_COLUMNS, Telemetry

PID = 1 << 23
MEMBERS = [Member(PID, 5, 0), Member(PID + 1, 5, None)]


def process(root: Path, pid: int, ticks: int) -> None:
    plant(root, {f"proc/{pid}/stat": stat_line(pid, started=5, ticks=ticks, pages=3)})


def network(root: Path, eth0: int, lo: int) -> None:
    """So many bytes have come in."""
    plant(root, {"proc/net/dev": f" eth0: {eth0}{' 0' * 9}\n lo: {lo}{' 0' * 9}\n"})


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """The root of a host with one rank."""
    process(tmp_path, PID, 0)
    process(tmp_path, PID + 1, 0)
    network(tmp_path, 0, 0)
    counts = "sys/class/net/{}/statistics/{}_bytes"
    plant(
        tmp_path,
        {
            "proc/stat": "cpu0 0 0 0 0\ncpu1 0 0 0 0\nprocs_running 1\n",
            "proc/self/schedstat": "5 5 5",
            counts.format("eth0", "rx"): "0",
            counts.format("eth0", "tx"): "0",
            counts.format("lo", "rx"): "0",
        },
    )
    return tmp_path


def begun(root: Path, ranks: int = 1) -> Recording:
    return Recording(ranks, gpus=False, environ={}, root=root)


def test_host_and_ranks_have_their_tracks(made: Path) -> None:
    found = begun(made)
    process(made, PID, 3 * TICKS)
    network(made, 1000, 5)
    found.look(MEMBERS)
    found.window(lambda: False)
    found.look(MEMBERS)
    telemetry = found.telemetry(0.001)
    machine, rank = telemetry.tracks
    assert (machine.rank, rank.rank, telemetry.interface) == (None, 0, "eth0")
    assert machine.columns.keys() == HOST_COLUMNS.keys()
    assert rank.columns.keys() == RANK_COLUMNS.keys()
    assert len(machine.times_s) == len(rank.times_s) == 2
    first, second = rank.columns["own_user_cores"]
    assert first is not None and first > 0 and second == 0.0
    assert machine.columns["network_busy_share"] == (None, 0.0)


def test_what_was_used_before_it_began_is_left_out(made: Path) -> None:
    found = begun(made)
    process(made, PID, 3 * TICKS)
    found.begin(MEMBERS)
    found.look(MEMBERS)
    rank = found.telemetry(0.0).tracks[1]
    assert rank.columns["own_user_cores"] == (0.0,)


def test_a_synthetic_host_has_no_cpus(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = begun(made)
    found.look(MEMBERS)
    monkeypatch.setattr(counters, "is_of_host", lambda first, last: False)
    telemetry = found.telemetry(0.0)
    assert telemetry.tracks[0].columns["user_cores"] == (None,)
    assert telemetry.tracks[0].columns["memory_bytes"] != (None,)


def test_mean_and_bursts_of_the_network_are_of_one_interface(made: Path) -> None:
    """A job that goes over lo after a start over eth0 had the mean of one, bursts of both."""
    found = begun(made)
    for eth0, lo in ((900, 0), (900, 800), (900, 9999)):
        network(made, eth0, lo)
        found.look(MEMBERS)
        found.window(lambda: False)
    telemetry = found.telemetry(0.0)
    rates = telemetry.tracks[0].columns["network_bytes_per_s"]
    bursts = telemetry.tracks[0].columns["network_burst_bytes_per_s"]
    assert telemetry.interface == "lo"
    assert rates[0] and rates[1] == 0.0, "lo is not looked at yet: nothing of it"
    assert rates[2] and bursts == (None, 0.0, None), "bursts of eth0 say nothing of lo"


def test_an_interface_that_goes_is_said_once(made: Path) -> None:
    found = begun(made)
    network(made, 9, 0)
    found.look(MEMBERS)
    plant(made, {"sys/class/net/eth0/statistics/rx_bytes": ""})
    for _ in range(3):
        found.window(lambda: False)
        found.look(MEMBERS)
    said = [gap for gap in found.telemetry(0.0).gaps if "Bursts" in gap]
    assert len(said) == 1


def test_a_kernel_that_does_not_count_waiting_is_a_gap(made: Path) -> None:
    plant(made, {"proc/self/schedstat": "0 0 0"})
    found = begun(made)
    found.look(MEMBERS)
    telemetry = found.telemetry(0.0)
    assert telemetry.tracks[1].columns["own_queue_threads"] == (None,)
    assert sum("schedstat" in gap for gap in telemetry.gaps) == 1


# --- the thread --------------------------------------------------------------------------


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "telemetry"]


def sampler(members: list[Member] | None = None) -> Sampler:
    return Sampler(lambda: members or [], ranks=1, gpus=False, environ={})


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_the_thread_is_gone_whatever_happens(error: type[BaseException]) -> None:
    with pytest.raises(error), sampler():
        raise error
    assert threads() == []


def test_what_goes_wrong_in_it_is_a_gap() -> None:
    def broken() -> list[Member]:
        raise RuntimeError("no way")

    with Sampler(broken, ranks=1, gpus=False, environ={}) as found:
        found._thread.join(30)
    assert found.telemetry.gaps[-1] == "The recording broke off: RuntimeError: no way."


def test_a_machine_without_threads_is_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with sampler() as found:
        pass
    assert found.telemetry == Telemetry(gaps=("The recording broke off: can't start new thread.",))


# --- a track in bounded room: what must survive when intervals are joined -----------------

values = st.floats(0, 1e12) | st.integers(0, 100).map(float)
intervals = st.lists(st.tuples(st.floats(0.001, 100), values, values), min_size=1, max_size=120)


def filled(rows: list[tuple[float, float | None, float | None]], most: int) -> Series:
    """One mean (cores) and one peak (memory) in intervals of these lengths."""
    series, now_s = Series(most), 0.0
    for length_s, cores, memory in rows:
        series.add(now_s, now_s + length_s, {"user_cores": cores, "memory_bytes": memory})
        now_s += length_s
    return series


@given(intervals, st.sampled_from([2, 4, 20]))
def test_totals_and_peaks_are_kept(rows: list[tuple[float, float, float]], most: int) -> None:
    points = filled([*rows], most).points
    assert 0 < len(points) <= most
    total = sum(length_s * cores for length_s, cores, _ in rows)
    kept = sum((point.end_s - point.begin_s) * (point.row["user_cores"] or 0.0) for point in points)
    assert kept == pytest.approx(total, rel=1e-6, abs=1e-9)
    most_bytes = max(memory for _, _, memory in rows)
    assert max(point.row["memory_bytes"] or 0.0 for point in points) == most_bytes
    assert points[0].begin_s == 0.0
    assert points[-1].end_s == pytest.approx(sum(length_s for length_s, _, _ in rows))
    assert all(one.end_s == other.begin_s for one, other in pairwise(points))


@given(st.floats(0.001, 10), st.floats(0.001, 10), values, values)
def test_a_mean_lies_between_the_two(first: float, second: float, one: float, other: float) -> None:
    points = Point(0.0, first, {"a": one}), Point(first, first + second, {"a": other})
    mean = joined(*points).row["a"]
    assert mean is not None
    assert min(one, other) * (1 - 1e-9) <= mean <= max(one, other) * (1 + 1e-9)


def test_what_was_not_seen_takes_no_part() -> None:
    series = filled([(1.0, None, None), (1.0, 4.0, 7.0), (1.0, None, None)], 2)
    first, last = series.points
    assert first.row == {"user_cores": 4.0, "memory_bytes": 7.0}
    assert last.row == {"user_cores": None, "memory_bytes": None}


def test_many_points_are_joined_evenly() -> None:
    series = filled([(1.0, 1.0, 1.0)] * 1000, 8)
    lengths = [(point.end_s - point.begin_s) for point in series.points]
    assert max(lengths) <= 256
    assert set(lengths[:-1]) == {max(lengths)}


@given(st.integers(0, 10**6), st.integers(1, 30))
def test_many_ranks_share_the_room(ranks: int, columns: int) -> None:
    points = points_for(ranks, columns)
    assert LEAST_POINTS <= points <= MOST_POINTS
    assert points % 2 == 0
