"""Each verdict from a launch as it would have been recorded, and what must not change one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.explain_cases import MACHINE, WORK, host, phases, rank, track, verdict, view
from tests.study_samples import SPEC, setting
from tuner.model import (
    BASELINE,
    HOST_COLUMNS,
    PHASES,
    RANK_COLUMNS,
    Finished,
    Load,
    Outcome,
    PhaseShare,
    Progress,
    RankView,
    Telemetry,
    Track,
)
from tuner.results.explain import Cause, Certainty, Remedy, explain

# --- cores --------------------------------------------------------------------------------


def test_a_hog_beside_is_named() -> None:
    load = Load(3.0, "pid 6263 (python, user bob)")
    found = verdict(
        [host(4.0, others_cores=3.0, runnable_threads=7.0), rank(0, 0.5, 0.5), rank(1, 0.5, 0.5)],
        [*phases(0, compute=(0.5, 0.5, 0.0)), *phases(1, compute=(0.5, 0.5, 0.0))],
        load=load,
    )
    assert found.cause is Cause.OTHERS
    assert found.suspect.subject == "pid 6263 (python, user bob)"
    assert found.suspect.share == pytest.approx(0.5)
    assert (found.certainty, found.remedy) == (Certainty.CLEAR, None)


def test_processes_that_were_found_late_are_no_others() -> None:
    record = [host(4.0, others_cores=2.0), rank(0, 0.5, 0.5), rank(1, 0.5, 0.5)]
    shares = [*phases(0, compute=(0.5, 0.5, 0.0)), *phases(1, compute=(0.5, 0.5, 0.0))]
    assert verdict(record, shares).cause is Cause.OTHERS
    assert verdict(record, shares, load=Load(0.05)).cause is not Cause.OTHERS


def test_too_many_threads_of_the_ranks() -> None:
    found = verdict(
        [host(4.0, runnable_threads=16.0), rank(0, 2.0, 6.0), rank(1, 2.0, 6.0)],
        [*phases(0, compute=(0.3, 0.6, 0.1)), *phases(1, compute=(0.3, 0.6, 0.1))],
    )
    assert found.cause is Cause.OWN_THREADS
    assert found.remedy == Remedy("omp_threads", "lower")
    assert "16.0 threads of the job wanted 4 cores" in found.suspect.evidence[0]


def test_exchange_that_waits_for_ranks_without_a_cpu_is_not_the_cause() -> None:
    found = verdict(
        [host(4.0), rank(0, 2.0, 6.0), rank(1, 2.0, 6.0)],
        [*phases(0, compute=(0.2, 0.2, 0.0), exchange=(0.3, 0.3, 0.0))] * 2,
    )
    assert found.cause is Cause.OWN_THREADS


def test_too_many_workers() -> None:
    workers = {"children_cores": 1.5, "children_queue_threads": 4.0}
    record = [host(4.0), *(rank(n, 0.5, 0.5, **workers) for n in (0, 1))]
    shares = phases(0, compute=(0.5, 0.3, 0.0), loader=(0.0, 0.0, 0.2))
    found = verdict(record, shares, views=[view(0, 8), view(1, 8)])
    assert found.cause is Cause.WORKERS
    assert found.remedy == Remedy("iterator_workers", "lower")
    found = verdict(record, shares, views=[view(0, 2, opencv=True), view(1, 2, opencv=True)])
    assert found.cause is Cause.OPENCV
    assert found.remedy is not None and found.remedy.knob == "opencv_threads"


def test_more_ranks_than_cores_has_no_culprit() -> None:
    record = [host(4.0), *(rank(n, 0.5, 0.5) for n in range(8))]
    found = verdict(record, [each for n in range(8) for each in phases(n, compute=(0.5, 0.5, 0))])
    assert (found.cause, found.suspect.subject) == (Cause.CORES, "8 ranks on 4 cores")
    assert found.remedy is None


def test_ranks_bound_to_the_same_cores() -> None:
    found = verdict(
        [host(1.0), rank(0, 0.5, 0.5), rank(1, 0.5, 0.5)],
        [*phases(0, compute=(0.5, 0.5, 0.0)), *phases(1, compute=(0.5, 0.5, 0.0))],
    )
    assert found.cause is Cause.BINDING
    assert found.remedy == Remedy("omp_threads", "lower")  # the study does not tune bind_to


def test_a_quota_comes_before_the_waiting_that_it_causes() -> None:
    found = verdict(
        [host(1.0, throttled_share=0.5), rank(0, 0.5, 0.5), rank(1, 0.5, 0.5)],
        [*phases(0, compute=(0.5, 0.5, 0.0)), *phases(1, compute=(0.5, 0.5, 0.0))],
    )
    assert found.cause is Cause.QUOTA


def test_the_hypervisor() -> None:
    found = verdict([host(2.0, steal_cores=2.0), rank(0), rank(1)], phases(0, compute=WORK))
    assert found.cause is Cause.HYPERVISOR


# --- waiting ------------------------------------------------------------------------------


def test_a_starved_loader() -> None:
    workers = {"children_cores": 0.9, "children_queue_threads": 0.0}
    record = [host(2.0), rank(0, 0.2, **workers), rank(1, 0.2, **workers)]
    shares = phases(0, "train.py:9 next", compute=(0.2, 0.0, 0.0), loader=(0.0, 0.0, 0.8))
    found = verdict(record, shares, views=[view(0, 1), view(1, 1)])
    assert (found.cause, found.suspect.subject) == (Cause.LOADER, "train.py:9 next")
    assert found.remedy == Remedy("iterator_workers", "higher")
    assert "2 child processes used 1.8 cores" in found.suspect.evidence[1]


def test_no_more_workers_than_there_are() -> None:
    shares = phases(0, compute=(0.2, 0.0, 0.0), loader=(0.8, 0.0, 0.0))
    found = verdict([host(1.0), rank(0)], shares, setting=setting(iterator_workers=4))
    assert found.cause is Cause.LOADER
    assert found.remedy is None or found.remedy.knob != "iterator_workers"


def test_a_loader_that_waits_for_the_disk() -> None:
    shares = phases(0, compute=(0.2, 0.0, 0.0), loader=(0.0, 0.0, 0.8))
    found = verdict([host(0.5, io_pressure_share=0.7), rank(0, 0.2)], shares)
    assert found.cause is Cause.DISK


def test_no_loader_is_named_where_none_was_seen() -> None:
    found = verdict([host(0.5, io_pressure_share=0.7), rank(0, 0.2)])
    assert (found.cause, "loader" in found.cause) == (Cause.DISK, False)
    children = rank(0, 0.1, children_cores=1.8, children_queue_threads=0.0)
    found = verdict([host(1.9), children], phases(0, compute=(0.1, 0, 0.9)), views=[view(0, 2)])
    assert found.cause is Cause.WAITING
    assert found.suspect.evidence[1] == "2 child processes used 1.8 cores"


def test_exchange_and_a_link_at_its_limit() -> None:
    shares = [*phases(0, compute=(0.4, 0, 0), exchange=(0.6, 0, 0))]
    shares += phases(1, compute=(0.4, 0, 0), exchange=(0.6, 0, 0))
    quick = host(2.0, network_bytes_per_s=1e8, network_busy_share=0.5,
                 network_burst_bytes_per_s=2e9)  # fmt: skip
    slow = host(2.0, network_bytes_per_s=1.2e7, network_busy_share=0.95,
                network_burst_bytes_per_s=1.25e7)  # fmt: skip
    found = verdict([quick, rank(0), rank(1)], shares)
    assert found.cause is Cause.EXCHANGE
    assert found.remedy is not None and found.remedy.knob == "communicator"
    found = verdict([slow, rank(0), rank(1)], shares)
    assert found.cause is Cause.LINK
    assert verdict([slow, rank(0), rank(1)]).cause is Cause.LINK


@pytest.mark.parametrize(
    ("share", "cause", "also"),
    [(0.16, Cause.EXCHANGE, []), (0.14, Cause.CPU, [Cause.EXCHANGE]), (0.09, Cause.CPU, [])],
)
def test_a_little_of_something_does_not_hold_a_run_back(
    share: float, cause: Cause, also: list[Cause]
) -> None:
    shares = [
        each
        for n in (0, 1)
        for each in phases(n, compute=(1 - share, 0, 0), exchange=(share, 0, 0))
    ]
    found = verdict([host(2.0), rank(0), rank(1)], shares)
    assert (found.cause, [each.cause for each in found.others]) == (cause, also)


def test_little_is_named_where_nothing_else_is_known() -> None:
    found = verdict((), phases(0, loader=(0, 0, 0.125)))
    assert (found.cause, found.others) == (Cause.LOADER, ())


def test_memory() -> None:
    found = verdict(
        [host(1.0, memory_pressure_share=0.6), rank(0)],
        phases(0, compute=(0.4, 0, 0.6)),
        load=Load(0.0, swapped_bytes=10**9),
    )
    assert found.cause is Cause.MEMORY
    assert "1000 MB" in found.suspect.evidence[1]


def test_all_ranks_sleep() -> None:
    record = [host(0.1), rank(0, 0.05), rank(1, 0.05)]
    found = verdict(record, phases(0, "train.py:3 f", compute=(0.05, 0.0, 0.95)))
    assert (found.cause, found.suspect.subject) == (Cause.WAITING, "train.py:3 f")
    assert verdict(record).cause is Cause.WAITING


def test_processes_that_the_ranks_forked_are_not_threads() -> None:
    record = [host(4.0), rank(0, 0.0, children_cores=4.0, children_queue_threads=4.0)]
    seen = [RankView(0, 1, 8, ())]
    found = verdict(record, views=seen)
    assert found.cause is Cause.PROCESSES
    assert "8 child processes" in found.suspect.evidence[1]
    assert verdict(record, views=[RankView(0, 9, 1, ())]).cause is Cause.OWN_THREADS


def test_ranks_with_workers_do_not_load_by_themselves() -> None:
    shares = phases(0, compute=(0.2, 0.0, 0.0), loader=(0.8, 0.0, 0.0))
    alone = verdict([host(1.0), rank(0)], shares)
    assert "in their own main threads" in alone.suspect.evidence[1]
    helped = verdict([host(1.0), rank(0)], shares, views=[view(0, 4)])
    assert "main threads" in helped.suspect.evidence[1]
    assert "4 child processes" in helped.suspect.evidence[1]
    assert "own main threads" not in helped.suspect.evidence[1]


# --- nothing ------------------------------------------------------------------------------


def test_a_job_whose_processes_belong_to_no_rank_does_not_wait() -> None:
    """Workers that no rank was seen to have: host and ranks do not add up."""
    found = verdict([host(2.0, others_cores=0.03), rank(0, 0.0)])
    assert (found.cause, found.certainty) == (Cause.CPU, Certainty.GUESS)
    assert "the job kept 2.0 of 4 cores busy" in found.suspect.evidence
    assert any("2.0 of the 2.0 cores" in gap for gap in found.gaps)
    late = verdict([host(2.0, others_cores=2.0), rank(0, 0.0)], load=Load(0.03))
    assert (late.cause, late.certainty) == (Cause.CPU, Certainty.GUESS)


def test_a_mean_above_the_greatest_burst_is_no_saturated_link() -> None:
    network = {"network_bytes_per_s": 27.6e6, "network_busy_share": 1.0}
    record = [host(2.0, network_burst_bytes_per_s=0.06e6, **network), rank(0, 0.2), rank(1, 0.2)]
    shares = [*phases(0, exchange=(0.2, 0.0, 0.8)), *phases(1, exchange=(0.2, 0.0, 0.8))]
    found = verdict(record, shares)
    assert found.cause is Cause.EXCHANGE
    assert not any("over the network" in line for line in found.suspect.evidence)


def test_an_option_that_the_program_may_not_have_is_no_remedy() -> None:
    record = [host(2.0), rank(0, 0.2), rank(1, 0.2)]
    shares = [*phases(0, exchange=(0.2, 0.0, 0.8)), *phases(1, exchange=(0.2, 0.0, 0.8))]
    found = verdict(record, shares, spec=replace(SPEC, knobs=()))
    assert found.remedy == Remedy("ompi_btl", "another", tuned=False)
    without_mpi = [RankView(each, 1, 0, (), reported=True) for each in (0, 1)]
    assert verdict(record, shares, spec=replace(SPEC, knobs=()), views=without_mpi).remedy is None


def test_bound_by_compute() -> None:
    shares = [*phases(0, compute=WORK), *phases(1, compute=WORK)]
    found = verdict([host(2.0), rank(0), rank(1)], shares)
    assert (found.cause, found.certainty) == (Cause.CPU, Certainty.CLEAR)
    assert found.remedy == Remedy("omp_threads", "higher")
    full = verdict([host(4.0), rank(0, 2.0), rank(1, 2.0)], shares)
    assert (full.cause, full.remedy) == (Cause.CPU, None)


def test_bound_by_the_gpu() -> None:
    record = [host(1.0, gpu_share=0.97, gpu_power_w=640.0), rank(0, 0.3)]
    found = verdict(record, phases(0, compute=(0.3, 0, 0.7)))
    assert (found.cause, found.remedy) == (Cause.GPU, None)
    assert found.suspect.evidence[1] == "they took 640 W"


def test_nothing_recorded_is_not_known() -> None:
    found = explain(Outcome(Finished(1.0, 1), 1.0, 0), BASELINE, SPEC, MACHINE)
    assert (found.cause, found.certainty) == (Cause.UNKNOWN, Certainty.GUESS)
    assert found.gaps[0] == "Nothing was recorded of this launch."
    assert verdict().cause is Cause.UNKNOWN


def test_what_was_before_the_program_began_is_left_out() -> None:
    times_s = (2.0, 4.0)
    record = Track("node1", 0, times_s, {"own_user_cores": (0.0, 1.0)})
    progress = (Progress(1, 0.5, seen_s=2.5), Progress(2, 2.0, seen_s=4.0))
    outcome = Outcome(Finished(2.0, 2), 4.0, 0, progress, telemetry=Telemetry((record,)))
    assert explain(outcome, BASELINE, SPEC, MACHINE).cause is Cause.CPU
    early = replace(outcome, progress=())
    assert explain(early, BASELINE, SPEC, MACHINE).cause is Cause.WAITING


def test_a_shell_around_a_rank_is_not_the_rank() -> None:
    record = [host(2.0), *(rank(n, 0.0, children_cores=1.0) for n in (0, 1))]
    shares = [*phases(0, compute=WORK), *phases(1, compute=WORK)]
    assert verdict(record, shares).cause is Cause.CPU
    assert verdict(record).cause is Cause.CPU


# --- laws ---------------------------------------------------------------------------------

_NUMBERS = (
    st.floats(0, 1e3, allow_subnormal=False) | st.floats(0, 1, allow_subnormal=False) | st.none()
)


def _tracks(names: list[str], numbers: st.SearchStrategy[int | None]) -> st.SearchStrategy[Track]:
    columns = st.dictionaries(st.sampled_from(names), st.tuples(_NUMBERS, _NUMBERS))
    return st.builds(lambda rank, values: Track("h", rank, (1.0, 2.5), values), numbers, columns)


_HOSTS = _tracks(list(HOST_COLUMNS), st.none())
_RANKS = _tracks(list(RANK_COLUMNS), st.integers(0, 3))
_PARTS = st.tuples(*[st.floats(0, 1)] * 3)
_PHASES = st.builds(
    lambda rank, phase, parts: phases(rank, **{phase: parts})[0],
    st.integers(0, 3), st.sampled_from(PHASES), _PARTS,
)  # fmt: skip
RECORDS = st.builds(
    Telemetry,
    st.lists(_HOSTS | _RANKS, max_size=5).map(tuple),
    st.lists(_PHASES, max_size=8).map(tuple),
)
LOADS = st.none() | st.builds(Load, st.floats(0, 64), st.text(max_size=5))


def _of(record: Telemetry, load: Load | None = None) -> tuple[Cause, str]:
    outcome = Outcome(Finished(1.0, 10), 1.5, 0, load=load, telemetry=record)
    found = explain(outcome, BASELINE, SPEC, MACHINE)
    assert found.suspect.share >= 0
    assert all(each.share <= found.suspect.share for each in found.others)
    assert all(text.strip() for text in found.suspect.evidence)
    return found.cause, found.suspect.subject


@given(RECORDS, LOADS)
def test_any_record_has_a_verdict(record: Telemetry, load: Load | None) -> None:
    _of(record, load)


def _possible(record: Telemetry) -> Telemetry:
    """The same with shares of at most 1, each column's and all phases' of a rank."""
    tracks = [
        replace(each, columns={name: _capped(name, row) for name, row in each.columns.items()})
        for each in record.tracks
    ]
    once = {(each.rank, each.phase): each for each in record.phases}.values()
    shares = []
    for each in once:
        all_of = sum(other.share for other in once if other.rank == each.rank)
        parts = [part / max(all_of, 1e-9) for part in (each.running, each.queued, each.blocked)]
        ran, queued, blocked = parts
        shares.append(PhaseShare(each.rank, each.phase, sum(parts), ran, queued, blocked))
    return replace(record, tracks=tuple(tracks), phases=tuple(shares))


def _capped(name: str, row: Sequence[float | None]) -> tuple[float | None, ...]:
    most = 1.0 if name.endswith("_share") else math.inf
    return tuple(value if value is None else min(most, value) for value in row)


@given(RECORDS.map(_possible), LOADS)
def test_every_share_is_a_part_of_the_time(record: Telemetry, load: Load | None) -> None:
    outcome = Outcome(Finished(1.0, 10), 1.5, 0, load=load, telemetry=record)
    found = explain(outcome, BASELINE, SPEC, MACHINE)
    assert all(0 <= each.share <= 1 + 1e-9 for each in (found.suspect, *found.others))


@given(RECORDS, LOADS, st.floats(0.01, 100))
def test_a_slower_clock_changes_nothing(record: Telemetry, load: Load | None, scale: float) -> None:
    tracks = [replace(t, times_s=tuple(x * scale for x in t.times_s)) for t in record.tracks]
    assert _of(replace(record, tracks=tuple(tracks)), load) == _of(record, load)


@given(RECORDS, LOADS)
def test_what_says_nothing_changes_nothing(record: Telemetry, load: Load | None) -> None:
    empty = (track(9, own_user_cores=None), track(None), Track("idle", None, (), {}))
    more = replace(record, tracks=(*record.tracks, *empty), gaps=("No GPU was seen.",))
    assert _of(more, load) == _of(record, load)
