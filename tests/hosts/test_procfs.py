"""The lines of ``/proc`` that several parts read."""

from __future__ import annotations

import os

from hypothesis import example, given
from hypothesis import strategies as st

from tuner.hosts import procfs
from tuner.hosts.procfs import TICKS

PAGE = os.sysconf("SC_PAGE_SIZE")
LINE = (
    b"4711 (%b) R 17 4711 4711 0 -1 4194304 100 0 6 0 500 300 70 30 20 0 7 0 123456 1000 200 18446"
)


@given(st.binary(max_size=15).filter(lambda name: b"\0" not in name))
@example(b") Z 1 (")
def test_a_program_may_have_any_name(name: bytes) -> None:
    procfs.parse_stat(name)
    stat = procfs.parse_stat(LINE.replace(b"%b", name))
    assert stat is not None
    assert (stat.pid, stat.state, stat.parent, stat.major_faults) == (4711, "R", 17, 6)
    assert (stat.user_s, stat.system_s, stat.reaped_s) == (500 / TICKS, 300 / TICKS, 100 / TICKS)
    assert (stat.threads, stat.started, stat.resident_bytes) == (7, 123456, 200 * PAGE)
