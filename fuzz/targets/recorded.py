"""What the sampler reads of processes, control groups and interfaces, and the rows made of it."""

from __future__ import annotations

import math
from typing import Any

from fuzz.target import Target
from fuzz.texts import Texts
from tuner.hosts import procfs
from tuner.hosts.procfs import Stat
from tuner.hosts.telemetry import kernel
from tuner.hosts.telemetry.host import HostCounters, host_row, moved, others_s
from tuner.hosts.telemetry.processes import Seen, Task, rank_row
from tuner.hosts.telemetry.series import Series
from tuner.model import Telemetry
from tuner.store import codec


def _plain(row: Any) -> None:
    """Every value is one that can be kept: a number of 0 or more, or none."""
    for name, value in row.items():
        assert value is None or (type(value) is float and 0 <= value < math.inf), (name, value)


def _host(data: bytes, at_s: float) -> HostCounters:
    quota, waited = kernel.parse_quota(data), kernel.parse_pressure(data)
    return HostCounters(
        at_s=at_s,
        cpus=tuple(procfs.parse_cpus(data, {0, 1})),
        runnable=kernel.parse_runnable(data),
        quotas={} if quota is None else {"a": quota},
        waited_s={} if waited is None else {"cpu": waited},
        interfaces=kernel.parse_interfaces(data),
    )


def host(data: bytes) -> None:
    """Two looks at odd files: the row can be kept, and no rate is negative."""
    one, _, other = data.partition(b"\n--\n")
    before, after = _host(one, 1.0), _host(other, 1.5)
    others = others_s(before, after, 0.25)
    assert others is None or math.isfinite(others)
    assert all(type(count) is int and count >= 0 for count in moved(before, after).values())
    row = host_row(before, after, trial_s=0.25, others_s=None, memory_bytes=0.0)
    _plain(row)
    series = Series()
    series.add(0.0, 0.5, row)
    track = series.track("node1", None)
    assert codec.dumps(Telemetry((track,))).isascii()


_FILES = (
    b"cpu0 100 0 50 500 40 0 0 7 0 0\ncpu1 1 1 1 1\nprocs_running 3\n",
    b"some avg10=80.06 avg60=27.89 avg300=8.34 total=12864739433\nfull avg10=0.00 total=0\n",
    b"usage_usec 9000000\nnr_throttled 3\nthrottled_usec 250000\n",
    b"nr_periods 5\nnr_throttled 2\nthrottled_time 250000000\n",
    b" face |bytes packets\n    lo: 700 1 0 0 0 0 0 0 700 1 0\n  eth0:100 1 0 0 0 0 0 0 9 1\n",
)
_HOSTS = Texts(
    [one + b"\n--\n" + one for one in _FILES] + [b"".join(_FILES) + b"\n--\n" + b"".join(_FILES)],
    (b"\n--\n", b"cpu0 ", b"total=", b"throttled_usec ", b"lo:", b":", b" ", b"\n", b"9" * 30),
)


def rank(data: bytes) -> None:
    """A process whose files are odd: the row of its rank can be kept."""
    stat, _, rest = data.partition(b"\n--\n")
    line, _, status = rest.partition(b"\n--\n")
    found = procfs.parse_stat(stat)
    wait, switches = kernel.parse_wait(line), kernel.parse_switches(status)
    if wait is not None:
        assert all(value >= 0 for value in wait), wait
    if switches is not None:
        assert all(value >= 0 for value in switches), switches
    if found is None:
        return
    tasks = {} if wait is None else {1: Task(wait.queue_s, wait.slices, *(switches or (0, 0)))}
    seen = {(found.pid, found.started): Seen(0, found, tasks)}
    _plain(rank_row({}, seen, 0.5))
    _plain(rank_row(seen, seen, 0.5))
    _plain(rank_row({key: Seen(0, _OTHER, {}) for key in seen}, seen, 0.5))


_LINE = b"4711 (python3) R 1 4711 4711 0 -1 4194304 100 0 0 0 5 3 2 1 20 0 7 0 123456 1000 200 1 1"
_OTHER = Stat(4711, "python3", "R", 1, 0, 0.5, 0.25, 0.25, 7, 123456, 819200)
_SWITCHES = b"voluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t7\n"
_RANKS = Texts(
    [b"\n--\n".join((_LINE, b"175639000 5960580000 2\n", _SWITCHES))],
    (b"\n--\n", b")", b"(", b" ", b"-1", b"9" * 25, b"9" * 400, b"ctxt_switches:\t"),
)

TARGETS = (
    Target("recorded_host", host, _HOSTS, share=0.5),
    Target("recorded_rank", rank, _RANKS, share=1.0),
)
