"""What rank 0 tells a supervisor that reads, and one that is busy."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

from tests.live_bench import Supervisor, probe_module

rank_live_line, rank_live_report = probe_module("rank_live_line"), probe_module("rank_live_report")


def test_a_supervisor_that_does_not_read_is_not_waited_for(tmp_path: Path) -> None:
    """It thinks for seconds between two windows; iterations of microseconds fill the socket."""
    supervisor = Supervisor(tmp_path)
    report = rank_live_report.Report(rank_live_line.Line(str(supervisor.path)))
    report.hello(SimpleNamespace(size=1, name="none"), "session", {}, 1)
    iteration = 1
    begun_s = time.monotonic()
    for _ in range(200):
        for _ in range(1000):
            report.add(2e-5, False)
        iteration += 1000
        assert report.poll(iteration) is not None
    assert time.monotonic() - begun_s < rank_live_line._LIMIT_S
    supervisor.hello()
    supervisor.send(type="switch", number=1, values={})
    assert report.poll(iteration)["switch"] == {"number": 1, "values": {}}
    report.add(0.5, False)
    report.switched(1, iteration, 0.0, [{}])
    assert supervisor.until("switched") is not None
    report.add(0.25, False)
    report.poll(iteration + 2)
    report.end()
    assert supervisor.until("none") is None
    supervisor.close()
    counted = supervisor.counted()
    assert 1000 < len(counted) < iteration, "some were left out"
    assert len(set(counted)) == len(counted)
    last = supervisor.steps[-1]
    assert (last["first"], last["s"]) == (iteration, [0.5, 0.25]), "and counted nevertheless"
