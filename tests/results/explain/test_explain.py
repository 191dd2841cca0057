"""Each verdict from a launch as it would have been recorded, and what must not change one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.explain_cases import STEP, WORK, host, of_all, phases, rank, ranks, track, verdict, views
from tests.study_samples import FAST, SPEC, launched, record, setting, stopped
from tuner.model import (
    BASELINE,
    HOST_COLUMNS,
    PHASES,
    RANK_COLUMNS,
    Finished,
    LaunchRecord,
    Load,
    Outcome,
    PhaseShare,
    Progress,
    Purpose,
    SideBySide,
    Stopped,
    Telemetry,
    Track,
)
from tuner.results.explain import Cause, Certainty, Diagnosis, explain
from tuner.results.explain.explained_runs import explained_run, median_run

HALF = of_all(2, compute=(0.5, 0.5, 0.0))
LOADS = phases(0, "train.py:9 next", compute=(0.2, 0, 0), loader=(0, 0, 0.8))
LOADS_ITSELF = phases(0, compute=(0.2, 0, 0), loader=(0.8, 0, 0))
WAITS = of_all(2, exchange=(0.2, 0.0, 0.8))
HOG = Load(3.0, "pid 6263 (python, user bob)")
NO_KNOBS = replace(SPEC, knobs=())
#: Rank 2 of four sleeps while the others wait for it.
LATE = [
    *phases(2, "train.py:7 sleep", compute=(0.1, 0, 0.85), exchange=(0.05, 0, 0)),
    *(share for n in (0, 1, 3) for share in phases(n, compute=(0.1, 0, 0), exchange=(0.9, 0, 0))),
]
SLEEPER = [host(3.1), rank(2, 0.15), *(rank(n) for n in (0, 1, 3))]
SLOW_HOST = [
    replace(each, host="node2") for each in (host(4.0, others_cores=1.5), rank(2), rank(3))
]
UNEVEN_HOSTS = [
    *of_all(2, compute=(0.4, 0, 0), exchange=(0.6, 0, 0)),
    *(share for n in (2, 3) for share in phases(n, compute=(0.9, 0, 0), exchange=(0.1, 0, 0))),
]
#: Rank 0 of two has more work than the other.
UNEVEN = [
    *phases(0, compute=(0.95, 0, 0), exchange=(0.05, 0, 0)),
    *phases(1, compute=(0.35, 0, 0), exchange=(0.65, 0, 0)),
]


def case(
    cause: Cause,
    tracks: Sequence[Track] = (),
    shares: Sequence[PhaseShare] = (),
    subject: str = "",
    remedy: str = "",
    evidence: str = "",
    **more: Any,
) -> Any:
    """A row: what is recorded, and what is said; of the evidence a part."""
    explained = partial(verdict, tracks, shares, **more)
    return pytest.param(explained, cause, subject, remedy, evidence, id=cause.name)


PAIR = ranks(2)
QUEUED = ranks(2, 0.5, 0.5)
FORKED = [host(4.0), rank(0, 0.0, children_cores=4.0, children_queue_threads=4.0)]
WITH_WORKERS = [host(4.0), *ranks(2, 0.5, 0.5, children_cores=1.5, children_queue_threads=4.0)]
WORKS_AND_LOADS = phases(0, compute=(0.5, 0.3, 0.0), loader=(0.0, 0.0, 0.2))
SLOW_WORKERS = [host(2.0), *ranks(2, 0.2, children_cores=0.9, children_queue_threads=0.0)]
WAITS_FOR_CHILD = [host(1.9), rank(0, 0.1, children_cores=1.8, children_queue_threads=0.0)]
ON_DISK = [host(0.5, io_pressure_share=0.7), rank(0, 0.2)]
ONE_RANK = [host(1.0), rank(0)]
LATE_START = (Progress(1, 0.5, seen_s=2.5), Progress(2, 2.0, seen_s=4.0))


@pytest.mark.parametrize(
    ("explained", "cause", "subject", "remedy", "evidence"),
    [
        # Not enough CPU.
        case(
            Cause.OTHERS,
            [host(4.0, others_cores=3.0, runnable_threads=7.0), *QUEUED],
            *(HALF, HOG.busiest, "", "5.0 cores, above all pid 6263"),
            load=HOG,
        ),
        # Processes that were found late are no others.
        case(
            Cause.CORES,
            [host(4.0, others_cores=2.0), *QUEUED],
            *(HALF, "2 ranks on 4 cores"),
            load=Load(0.05),
        ),
        case(
            Cause.OWN_THREADS,
            [host(4.0, runnable_threads=16.0), *ranks(2, 2.0, 6.0)],
            of_all(2, compute=(0.3, 0.6, 0.1)),
            remedy="lower omp_threads",
            evidence="16.0 threads of the job wanted 4 cores",
        ),
        # An exchange that waits for ranks without a CPU is not the cause.
        case(
            Cause.OWN_THREADS,
            [host(4.0), *ranks(2, 2.0, 6.0)],
            of_all(2, compute=(0.2, 0.2, 0.0), exchange=(0.3, 0.3, 0.0)),
            remedy="lower omp_threads",
        ),
        case(
            *(Cause.WORKERS, WITH_WORKERS, WORKS_AND_LOADS, "", "lower iterator_workers"),
            evidence="16 child processes wanted 11.0 cores",
            views=views(2, 8),
        ),
        case(
            *(Cause.OPENCV, WITH_WORKERS, WORKS_AND_LOADS, "", "lower opencv_threads"),
            views=views(2, 2, opencv=True),
        ),
        # Processes that the ranks forked are no threads.
        case(Cause.PROCESSES, FORKED, evidence="8 child processes", views=views(1, 8)),
        case(
            Cause.CORES,
            [host(4.0), *ranks(8, 0.5, 0.5)],
            of_all(8, compute=(0.5, 0.5, 0)),
            subject="8 ranks on 4 cores",
        ),
        # The study does not tune bind_to.
        case(Cause.BINDING, [host(1.0), *QUEUED], HALF, "", "lower omp_threads", "3.0 of 4 cores"),
        # A quota comes before the waiting that it causes.
        case(Cause.QUOTA, [host(1.0, throttled_share=0.5), *QUEUED], HALF, evidence="back 50 %"),
        case(Cause.HYPERVISOR, [host(2.0, steal_cores=2.0), *PAIR], phases(0, compute=WORK)),
        # Waiting.
        case(
            *(Cause.LOADER, SLOW_WORKERS, LOADS, "train.py:9 next", "higher iterator_workers"),
            evidence="2 child processes used 1.8 cores",
            views=views(2, 1),
        ),
        # It has as many workers as there may be.
        case(
            *(Cause.LOADER, ONE_RANK, LOADS_ITSELF, STEP, "", "in their own main threads"),
            setting=setting(iterator_workers=4),
        ),
        case(Cause.DISK, ON_DISK, LOADS, "", "higher iterator_workers", "for a disk 70 %"),
        # No loader is named where none was seen.
        case(
            *(Cause.WAITING, WAITS_FOR_CHILD, phases(0, compute=(0.1, 0, 0.9)), STEP, ""),
            evidence="2 child processes used 1.8 cores",
            views=views(1, 2),
        ),
        case(
            *(Cause.EXCHANGE, [host(2.0, network_bytes_per_s=1e8), *PAIR], WAITS, STEP),
            *("another communicator", "100 MB/s over the network"),
        ),
        # An option that the program may not have is no remedy, nor one of MPI where there is none.
        case(
            *(Cause.EXCHANGE, [host(2.0), *PAIR], WAITS, STEP),
            spec=NO_KNOBS,
            views=[replace(view, reported=True) for view in views(2)],
        ),
        case(
            Cause.MEMORY,
            [host(1.0, memory_pressure_share=0.6), rank(0)],
            phases(0, compute=(0.4, 0, 0.6)),
            remedy="lower iterator_workers",
            evidence="1000 MB",
            load=Load(0.0, swapped_bytes=10**9),
        ),
        case(Cause.WAITING, [host(0.1), *ranks(2, 0.05)]),
        # A rank that the others wait for.
        case(
            *(Cause.STRAGGLER, SLEEPER, LATE, "rank 2"),
            evidence="slept in its own work 85 % of its time (train.py:7 sleep)",
        ),
        case(Cause.STRAGGLER, SLEEPER, (), "rank 2", "", "it wanted a core 15 % of the time"),
        case(Cause.STRAGGLER, [host(2.0), *PAIR], UNEVEN, "rank 0"),
        case(
            *(Cause.STRAGGLER, [host(2.0), *PAIR, *SLOW_HOST], UNEVEN_HOSTS),
            subject="ranks 2, 3 (on node2)",
            evidence="other processes used 1.5 cores on node2, 0.0 on another host at most",
        ),
        # From outside a rank with more work looks like one that waits in MPI …
        case(Cause.CPU, [host(2.0), *PAIR], (), "", "higher omp_threads", "look the same"),
        # … and those with threads to spare are not compared.
        case(Cause.WAITING, [rank(0, 8.0), rank(1, 0.5)]),
        # Nothing.
        # What was before the program began is left out.
        case(
            Cause.CPU,
            [Track("node1", 0, (2.0, 4.0), {"own_user_cores": (0.0, 1.0)})],
            progress=LATE_START,
        ),
        # A shell around a rank is not the rank.
        case(
            Cause.CPU,
            [host(2.0), *ranks(2, 0.0, children_cores=1.0)],
            of_all(2, compute=WORK),
            remedy="higher omp_threads",
        ),
        case(
            Cause.GPU,
            [host(1.0, gpu_share=0.97, gpu_power_w=640.0), rank(0, 0.3)],
            phases(0, compute=(0.3, 0, 0.7)),
            evidence="they took 640 W",
        ),
        case(Cause.UNKNOWN),
    ],
)
def test_the_verdict(
    explained: Callable[[], Diagnosis], cause: Cause, subject: str, remedy: str, evidence: str
) -> None:
    explanation = explained()
    assert (explanation.cause, explanation.suspect.subject) == (cause, subject), explanation
    assert evidence in "; ".join(explanation.suspect.evidence)
    turn = explanation.remedy
    assert remedy == ("" if turn is None else f"{turn.direction} {turn.knob}")


def test_what_was_seen_from_inside_and_outside_and_is_far_ahead_is_clear() -> None:
    assert verdict(SLEEPER, LATE).certainty is Certainty.CLEAR
    outside = verdict(SLEEPER)
    assert outside.certainty is Certainty.LIKELY
    assert any("not seen from inside" in gap for gap in outside.gaps)
    nothing = explain(Outcome(Finished(1.0, 1), 1.0, 0), BASELINE, SPEC, SPEC.machine)
    said = "Nothing was recorded of this launch."
    assert (nothing.certainty, nothing.gaps[0]) == (Certainty.GUESS, said)


@pytest.mark.parametrize(("others", "load"), [(0.03, None), (2.0, Load(0.03))])
def test_a_job_whose_processes_belong_to_no_rank_does_not_wait(
    others: float, load: Load | None
) -> None:
    explanation = verdict([host(2.0, others_cores=others), rank(0, 0.0)], load=load)
    assert (explanation.cause, explanation.certainty) == (Cause.CPU, Certainty.GUESS)
    assert "the job kept 2.0 of 4 cores busy" in explanation.suspect.evidence
    assert any("2.0 of the 2.0 cores" in gap for gap in explanation.gaps)


@pytest.mark.parametrize(
    ("share", "cause", "also"),
    [(0.16, Cause.EXCHANGE, []), (0.14, Cause.CPU, [Cause.EXCHANGE]), (0.09, Cause.CPU, [])],
)
def test_a_little_of_something_does_not_hold_a_run_back(
    share: float, cause: Cause, also: list[Cause]
) -> None:
    shares = of_all(2, compute=(1 - share, 0, 0), exchange=(share, 0, 0))
    explanation = verdict([host(2.0), *ranks(2)], shares)
    assert (explanation.cause, [other.cause for other in explanation.others]) == (cause, also)


def test_a_job_on_two_hosts_is_explained_as_one_of_half_its_size_on_one() -> None:
    one = [host(4.0), *ranks(2, 2.0, 1.0)]
    other = [host(4.0), rank(2, 2.0, 1.0), rank(3, 2.0, 1.0)]
    alone, both = verdict(one), verdict([*one, *(replace(each, host="node2") for each in other)])
    assert (both.cause, both.suspect.share) == (alone.cause, alone.suspect.share)
    assert both.case.own_runnable == alone.case.own_runnable == 6.0


# --- runs of a study ----------------------------------------------------------------------


def test_the_median_run_of_a_setting_is_taken() -> None:
    runs = [record(n, FAST, time) for n, time in enumerate((3.0, 9.0, 1.0), 1)]
    warm_up = record(4, FAST, 2.9, purpose=Purpose.WARM_UP)
    other = record(5, BASELINE, 3.0)

    def median(*records: LaunchRecord) -> LaunchRecord | None:
        return median_run(records, FAST)

    assert median(*runs, warm_up, other) is runs[0]
    assert median(other) is None
    outcome = replace(runs[0].outcome, side_by_side=SideBySide(7))
    pairs = [record(n, FAST, 3.0, outcome=outcome) for n in (6, 8, 10)]
    assert median(runs[1], *pairs) is runs[1], "of launches side by side nothing is recorded"


ONE = setting(omp_threads=1, iterator_workers=1, communicator="naive")
FOUR = setting(omp_threads=4, iterator_workers=1, communicator="naive")
DROWNED = Telemetry((host(4.0), *ranks(2, 2.0, 6.0)), tuple(of_all(2, compute=(0.3, 0.7, 0))))


@pytest.mark.parametrize(
    ("with_four", "with_one_s", "said"),
    [
        (5.0, 5.0, "no knob here addresses it"),
        (5.0, 2.0, "a lower omp_threads addresses it"),
        (stopped(4.0, 9.0), 5.0, "a lower omp_threads addresses it"),
    ],
)
def test_a_knob_is_named_unless_launches_that_differ_in_it_alone_contradict(
    with_four: float | Stopped, with_one_s: float, said: str
) -> None:
    data = launched([(Purpose.GUESS, FOUR, with_four), (Purpose.SEARCH, ONE, with_one_s)])
    assert said in explained_run("best", data.records[0], DROWNED, data).lines


# --- laws ---------------------------------------------------------------------------------

_NUMBERS = (
    st.floats(0, 1e3, allow_subnormal=False) | st.floats(0, 1, allow_subnormal=False) | st.none()
)


def _tracks(names: list[str], numbers: st.SearchStrategy[int | None]) -> st.SearchStrategy[Track]:
    columns = st.dictionaries(st.sampled_from(names), st.tuples(_NUMBERS, _NUMBERS))
    return st.builds(lambda rank, values: Track("h", rank, (1.0, 2.5), values), numbers, columns)


_HOSTS = _tracks(list(HOST_COLUMNS), st.none())
_RANKS = _tracks(list(RANK_COLUMNS), st.integers(0, 3))
_PHASES = st.builds(
    lambda rank, phase, parts: phases(rank, **{phase: parts})[0],
    st.integers(0, 3),
    st.sampled_from(PHASES),
    st.tuples(*[st.floats(0, 1)] * 3),
)
RECORDS = st.builds(
    Telemetry,
    st.lists(_HOSTS | _RANKS, max_size=5).map(tuple),
    st.lists(_PHASES, max_size=8).map(tuple),
)
LOADS_BESIDE = st.none() | st.builds(Load, st.floats(0, 64), st.text(max_size=5))


@given(RECORDS, LOADS_BESIDE, st.floats(0.01, 100))
def test_any_record_has_a_verdict_whatever_the_clock(
    telemetry: Telemetry, load: Load | None, scale: float
) -> None:
    slower = [replace(t, times_s=tuple(x * scale for x in t.times_s)) for t in telemetry.tracks]
    empty = (track(9, own_user_cores=None), track(None), Track("idle", None, (), {}))
    explanation = verdict(telemetry.tracks, telemetry.phases, load=load)
    shares = [each.share for each in explanation.others]
    assert all(0 <= share <= explanation.suspect.share for share in (0.0, *shares))
    same = verdict([*slower, *empty], telemetry.phases, load=load)
    assert (same.cause, same.suspect.subject) == (explanation.cause, explanation.suspect.subject)
