"""Where the CPU time of processes goes that come, go, and are waited for."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.host_files import plant, stat_line
from tuner.hosts.observe import Member
from tuner.hosts.procfs import TICKS, Stat
from tuner.hosts.telemetry.processes import ProcessSnapshot, Seen, look, rank_row, reaped_s, used
from tuner.model import RANK_COLUMNS

PAGE = os.sysconf("SC_PAGE_SIZE")


def seen(
    pid: int,
    user_s: float = 0.0,
    system_s: float = 0.0,
    reaped: float = 0.0,
    tasks: dict[int, float] | None = None,
    started: int = 100,
) -> tuple[tuple[int, int], Seen]:
    stat = Stat(pid, started, 1, threads=2, user_s=user_s, system_s=system_s, reaped_s=reaped,
                resident_bytes=1000)  # fmt: skip
    return (pid, started), Seen(0, stat, tasks or {})


# --- rates -------------------------------------------------------------------------------


def test_a_rank_and_its_child() -> None:
    before = dict([seen(10, 1.0, 0.5), seen(11, 2.0)])
    after = dict([seen(10, 2.0, 1.0, tasks={10: 0.5, 12: 0.5}), seen(11, 3.0, tasks={11: 2.0})])
    row = rank_row(before, after, 2.0)
    assert row.keys() == RANK_COLUMNS.keys()
    assert row == {
        "own_user_cores": 0.5,
        "own_system_cores": 0.25,
        "own_queue_threads": 0.5,
        "children_cores": 0.5,
        "children_queue_threads": 1.0,
        "runnable_threads": 2.75,
        "threads": 4.0,
        "memory_bytes": 2000.0,
    }
    row = rank_row(before, after, 2.0, waits=False)
    assert {name for name, value in row.items() if value is None} == {
        "own_queue_threads",
        "children_queue_threads",
        "runnable_threads",
    }


def test_a_new_process_of_an_old_id_counts_whole() -> None:
    before = dict([seen(10, 50.0)])
    after = dict([seen(10, 1.0, started=300)])
    assert used(before, after).cpu_s == 1.0


counters = st.floats(0, 1e6)
processes = st.builds(
    seen,
    st.integers(1, 4),
    counters,
    counters,
    counters,
    st.dictionaries(st.integers(1, 4), counters, max_size=3),
    st.integers(1, 2),
)
looks = st.lists(processes, max_size=5).map(dict)


@given(looks, looks.filter(bool), st.floats(0.01, 100))
def test_no_rate_is_ever_negative(
    before: ProcessSnapshot, after: ProcessSnapshot, interval_s: float
) -> None:
    """Also where counters are set back, and processes leave or are replaced."""
    assert all(
        value is not None and value >= 0 for value in rank_row(before, after, interval_s).values()
    )


# --- nothing is lost, nothing counted twice ----------------------------------------------


@dataclass
class Family:
    """Processes as the kernel accounts for them: whoever ends is waited for by its parent."""

    spent_s: float = 0.0
    youngest: int = 1
    own: dict[int, float] = field(default_factory=lambda: {1: 0.0})
    reaped: dict[int, float] = field(default_factory=lambda: {1: 0.0})
    parents: dict[int, int] = field(default_factory=dict)

    def act(self, act: str, pick: int, time_s: float) -> None:
        pid = sorted(self.own)[pick % len(self.own)]
        if act == "work":
            self.own[pid] += time_s
            self.spent_s += time_s
        elif act == "fork":
            self.youngest = child = self.youngest + 1
            self.own[child] = self.reaped[child] = 0.0
            self.parents[child] = pid
        elif pid != 1:
            parent = self.parents.pop(pid)
            for child, above in self.parents.items():
                if above == pid:  # an orphan
                    self.parents[child] = 1
            self.reaped[parent] += self.own.pop(pid) + self.reaped.pop(pid)

    def look(self) -> ProcessSnapshot:
        return dict(seen(pid, self.own[pid], 0.0, self.reaped[pid]) for pid in self.own)


acts = st.tuples(
    st.sampled_from(["work", "work", "fork", "end", "look"]), st.integers(0, 9), st.floats(0, 9)
)


@given(st.lists(acts, max_size=60))
def test_every_second_is_counted_once(steps: list[tuple[str, int, float]]) -> None:
    family, counted_s = Family(), 0.0
    before: ProcessSnapshot = {}
    for act, pick, time_s in [*steps, ("look", 0, 0.0)]:
        if act != "look":
            family.act(act, pick, time_s)
            continue
        after = family.look()
        counted_s += used(before, after).cpu_s + reaped_s(before, after)
        before = after
    assert counted_s == pytest.approx(family.spent_s, abs=1e-6)


# --- reading -----------------------------------------------------------------------------

FAR = 1 << 23
KEY = (FAR, 100 + FAR)
RANK = Member(*KEY, 0)


@dataclass
class Proc:
    """A folder in the form of /proc."""

    root: Path

    def add(
        self, pid: int, *, parent: int = 1, state: str = "S", ticks: int = 0, **threads: str
    ) -> None:
        line = stat_line(pid, started=100 + pid, name="a (b) c", state=state, parent=parent,
                         ticks=ticks, threads=len(threads), pages=5)  # fmt: skip
        plant(self.root, {f"{pid}/stat": line})
        for thread, text in threads.items():
            plant(self.root, {f"{pid}/task/{thread.removeprefix('t')}/schedstat": text})

    def look(self, before: ProcessSnapshot | None = None) -> ProcessSnapshot:
        return look([RANK], before or {}, str(self.root))


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def test_the_accounts_are_read(proc: Proc) -> None:
    assert proc.look() == {}, "a process that is gone is passed over"
    proc.add(FAR, parent=FAR + 9, ticks=50, t1="5000 2000000000 3", t2="1 500000000 1", t3="odd",
             t4="1 2")  # fmt: skip
    proc.add(FAR + 9, parent=1, ticks=7)
    found = proc.look()
    assert found.keys() == {KEY, (FAR + 9, 109 + FAR)}, "with its supervisor"
    assert found[KEY].tasks == {1: 2.0, 2: 0.5}
    assert found[KEY].stat.resident_bytes == 5 * PAGE
    assert used({}, found).cpu_s == pytest.approx(57 / TICKS)
    assert used({}, found).queue_s == 2.5


def test_threads_of_one_that_sleeps_are_not_read_again(proc: Proc) -> None:
    proc.add(FAR, ticks=50, t1="5000 2000000000 3")
    before = proc.look()
    proc.add(FAR, ticks=50, t1="5000 9000000000 9")
    assert proc.look(before)[KEY].tasks is before[KEY].tasks
    proc.add(FAR, ticks=51, t1="5000 9000000000 9")
    assert proc.look(before)[KEY].tasks == {1: 9.0}


def test_one_that_has_not_run_has_no_threads_to_read(proc: Proc) -> None:
    proc.add(FAR, t1="5000 2000000000 3")
    before = proc.look()
    assert before[KEY].tasks == {}
    proc.add(FAR, state="R", t1="5000 2000000000 3")
    assert used(before, proc.look(before)).queue_s == 2.0
