from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tuner.hosts.activity import Activity
from tuner.launch.hang_detector import (
    GONE_S,
    KERNEL_TIMES,
    TRUSTED_SHARE,
    HangDetector,
    may_be_elsewhere,
)
from tuner.model import Failed, FailureKind

LIMIT_S = 60.0
MPIRUN = Activity(10, 1, None, "S", 0.0, 0)
RANKS = (Activity(11, 2, 0, "S", 0.0, 0), Activity(12, 3, 1, "S", 0.0, 0))

Change = Callable[[Activity, float], Activity]


def idle(process: Activity, now_s: float) -> Activity:
    return process


def spins(process: Activity, now_s: float) -> Activity:
    return replace(process, state="R", cpu_s=now_s)


def reads(process: Activity, now_s: float) -> Activity:
    return replace(process, transfers=int(100 * now_s))


def state(letter: str) -> Change:
    return lambda process, now_s: replace(process, state=letter)


@dataclass
class Job:
    """A job in which each process goes on doing the same, looked at once a second."""

    ranks: int = 2
    computing: Collection[int] = ()
    asked: list[frozenset[int]] = field(default_factory=list)
    now_s: float = 0.0

    def __post_init__(self) -> None:
        self.detector = HangDetector(LIMIT_S, self.ranks, self._computes)

    def _computes(self, processes: Collection[Activity]) -> bool:
        pids = {process.pid for process in processes}
        self.asked.append(frozenset(pids))
        return bool(pids & set(self.computing))

    def run(
        self,
        *changes: Change,
        most_s: float = 2 * LIMIT_S,
        launcher: Change = idle,
        output: Callable[[float], object] = lambda _: 0,
        ranks: tuple[Activity, ...] = RANKS,
    ) -> Failed | None:
        """What the detector says within `most_s`, looking once a second."""
        start_s = self.now_s
        while self.now_s < start_s + most_s:
            seen = [change(each, self.now_s) for each, change in zip(ranks, changes, strict=False)]
            seen.append(launcher(MPIRUN, self.now_s))
            wrong = self.detector.look(self.now_s, (output(self.now_s),), seen)
            if wrong is not None:
                return wrong
            self.now_s += 1.0
        return None


def stalled(wrong: Failed | None) -> str:
    assert wrong is not None and wrong.kind is FailureKind.STALLED
    head, _, what = wrong.reason.partition(": ")
    assert head == "nothing happened for 60 s"
    return what


def test_a_job_of_which_nothing_moves_is_stalled_after_the_limit() -> None:
    job = Job()
    assert stalled(job.run(idle, idle)) == "all ranks are idle"
    assert job.now_s == LIMIT_S


def test_an_idle_rank_is_named_and_those_that_spin_make_no_life() -> None:
    job = Job()
    assert stalled(job.run(spins, idle)) == "rank 1 is idle, the others wait"
    assert job.now_s <= LIMIT_S * (1 + TRUSTED_SHARE) + 1
    job = Job()
    assert job.run(spins, spins, most_s=TRUSTED_SHARE * LIMIT_S) is None
    assert not job.asked, "nobody is looked into before a share of the limit"
    assert stalled(job.run(spins, spins)) == "all ranks wait for each other"


WORKER = Activity(13, 4, 1, "S", 0.0, 0)


@pytest.mark.parametrize(
    ("computing", "changes", "more"),
    [
        ([11], (spins, spins), {}),  # a long evaluation
        ([13], (spins, idle, spins), {"ranks": (*RANKS, WORKER)}),
        ([], (idle, reads), {}),
        ([], (idle, idle), {"output": lambda now_s: now_s // 50}),
        ([10], (), {"launcher": spins}),
    ],
)
def test_is_alive(computing: list[int], changes: tuple[Change, ...], more: dict[str, Any]) -> None:
    assert Job(computing=computing).run(*changes, most_s=5 * LIMIT_S, **more) is None


def test_time_is_counted_from_the_last_sign_of_life_and_the_kernel_is_given_more() -> None:
    job = Job()
    assert job.run(idle, idle, output=lambda now_s: min(now_s, 30.0)) is not None
    assert job.now_s == 30.0 + LIMIT_S
    job = Job()
    assert job.run(idle, state("D"), most_s=(KERNEL_TIMES - 1) * LIMIT_S) is None
    assert job.run(idle, state("D"), most_s=3 * LIMIT_S) is not None


def test_ranks_that_ended_without_mpirun_noticing() -> None:
    job = Job()
    assert job.run(spins, spins, most_s=5.0) is None
    reason = "all ranks ended, their launcher did not"
    assert job.run() == Failed(FailureKind.CRASHED, reason)
    assert 5.0 + GONE_S <= job.now_s <= 7.0 + GONE_S


def test_ranks_on_other_hosts_are_not_judged() -> None:
    assert Job(ranks=4).run(idle, idle, most_s=5 * LIMIT_S) is None
    assert Job(ranks=0).run(idle, idle) is not None, "on one host the others have ended"
    assert not may_be_elsewhere(("PATH", "HOME", "OMPI_MCA_btl"))
    for variable in ("SLURM_JOB_ID", "PBS_NODEFILE", "OMPI_MCA_orte_default_hostfile"):
        assert may_be_elsewhere(("PATH", variable))
