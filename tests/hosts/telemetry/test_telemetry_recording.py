"""A recording on a host made of files, and the thread that makes one."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tuner.hosts.observe import Member
from tuner.hosts.procfs import TICKS
from tuner.hosts.telemetry import Sampler, host
from tuner.hosts.telemetry.sampler import Recording
from tuner.model import HOST_COLUMNS, RANK_COLUMNS, Telemetry

PID = 1 << 23
MEMBERS = [Member(PID, 5, 0), Member(PID + 1, 5, None)]


def plant(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def process(root: Path, pid: int, ticks: int) -> None:
    line = f"{pid} (x) S 1 {'0 ' * 9}{ticks} 0 0 0 0 0 1 0 5 0 3"
    plant(root, **{f"proc__{pid}__stat": line})


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """The root of a host with one rank."""
    process(tmp_path, PID, 0)
    process(tmp_path, PID + 1, 0)
    plant(
        tmp_path,
        proc__stat="cpu0 0 0 0 0\ncpu1 0 0 0 0\nprocs_running 1\n",
        proc__self__schedstat="5 5 5",
        proc__net__dev=" eth0: 0 0 0 0 0 0 0 0 0 0\n lo: 0 0 0 0 0 0 0 0 0 0\n",
        sys__class__net__eth0__statistics__rx_bytes="0",
        sys__class__net__eth0__statistics__tx_bytes="0",
    )
    return tmp_path


def begun(root: Path, ranks: int = 1) -> Recording:
    return Recording(ranks, gpus=False, environ={}, root=root)


def test_host_and_ranks_have_their_tracks(made: Path) -> None:
    found = begun(made)
    process(made, PID, 3 * TICKS)
    plant(made, proc__net__dev=" eth0: 900 0 0 0 0 0 0 0 100 0\n lo: 5 0 0 0 0 0 0 0 5 0\n")
    found.look(MEMBERS)
    found.window(lambda: False)
    found.look(MEMBERS)
    found.close()
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


def test_what_the_host_is_read_too_early_for_is_no_others_time(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trial's time is known before the host's: it is not another's in the next interval."""
    found, told_s = begun(made), iter([-1e-6, 1e-6, 1e-6])
    monkeypatch.setattr(host, "others_s", lambda *_: next(told_s))
    for _ in range(3):
        found.look(MEMBERS)
    first, second, third = found.telemetry(0.0).tracks[0].columns["others_cores"]
    assert first == second == 0.0 and third


def test_a_made_up_host_has_no_cpus(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = begun(made)
    found.look(MEMBERS)
    monkeypatch.setattr(host, "made_up", lambda first, last: True)
    telemetry = found.telemetry(0.0)
    assert telemetry.tracks[0].columns["user_cores"] == (None,)
    assert telemetry.tracks[0].columns["memory_bytes"] != (None,)


def test_mean_and_bursts_of_the_network_are_of_one_interface(made: Path) -> None:
    """A job that goes over lo after a start over eth0 had the mean of one, bursts of both."""
    found = begun(made)
    plant(made, proc__net__dev=" eth0: 900 0 0 0 0 0 0 0 0 0\n lo: 0 0 0 0 0 0 0 0 0 0\n")
    found.look(MEMBERS)
    found.window(lambda: False)  # of eth0
    plant(made, sys__class__net__lo__statistics__rx_bytes="800")
    plant(made, proc__net__dev=" eth0: 900 0 0 0 0 0 0 0 0 0\n lo: 800 0 0 0 0 0 0 0 0 0\n")
    found.look(MEMBERS)
    plant(made, proc__net__dev=" eth0: 900 0 0 0 0 0 0 0 0 0\n lo: 9999 0 0 0 0 0 0 0 0 0\n")
    found.window(lambda: False)
    found.look(MEMBERS)
    found.close()
    telemetry = found.telemetry(0.0)
    rates = telemetry.tracks[0].columns["network_bytes_per_s"]
    bursts = telemetry.tracks[0].columns["network_burst_bytes_per_s"]
    assert telemetry.interface == "lo"
    assert rates[0] and rates[1] == 0.0, "lo is not looked at yet: nothing of it"
    assert rates[2] and bursts[2] is None, "bursts of eth0 say nothing of lo"


def test_an_interface_that_goes_is_said_once(made: Path) -> None:
    found = begun(made)
    plant(made, proc__net__dev=" eth0: 9 0 0 0 0 0 0 0 0 0\n")
    found.look(MEMBERS)
    plant(made, sys__class__net__eth0__statistics__rx_bytes="")
    for _ in range(3):
        found.window(lambda: False)
        found.look(MEMBERS)
    found.close()
    said = [gap for gap in found.telemetry(0.0).gaps if "Bursts" in gap]
    assert len(said) == 1


def test_a_kernel_that_does_not_count_waiting_is_a_gap(made: Path) -> None:
    plant(made, proc__self__schedstat="0 0 0")
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
