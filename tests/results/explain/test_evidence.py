from __future__ import annotations

from dataclasses import replace

from tests.explain_cases import WORK, host, phases, rank, verdict
from tests.study_samples import FAST, record, stopped
from tuner.model import BASELINE, Choice, Flag, IntRange, Knob, Purpose, Telemetry
from tuner.results.explain import Cause, Certainty, Explanation, Remedy, Suspect
from tuner.results.explain.case import Case, figures
from tuner.results.explain.evidence import median_run, remedy_sentence, sentence, table


def case(*tracks: object, shares: object = ()) -> Case:
    return Case(figures(Telemetry(tuple(tracks), tuple(shares))), 4)  # type: ignore[arg-type]


def test_the_table_has_what_was_seen_of_any() -> None:
    one = case(host(2.0, network_bytes_per_s=5e6, steal_cores=0.0), rank(0, 0.5, 0.25),
               shares=phases(0, compute=(0.5, 0.25, 0.25)))  # fmt: skip
    other = case(rank(0, 1.0, 0.0, children_cores=0.5))
    assert table([one, other]) == [
        ["main threads: own work", "100% (ran 50%, queued 25%, slept 25%)", ""],
        ["cores used by the ranks", "0.5", "1.5"],
        ["threads waiting for a core", "0.25", "0"],
        ["network", "5 MB/s", ""],
    ]


def test_a_verdict_in_a_sentence() -> None:
    found = Explanation(Suspect(Cause.STRAGGLER, 0.84, (), "rank 1"), Certainty.CLEAR)
    said = "held back by a rank that the others wait for (rank 1), 84 % of the time (clear)"
    assert sentence(found) == said
    bound = verdict([host(1.0), rank(0)], phases(0, compute=WORK))
    assert sentence(bound) == "nothing: bound by compute, 100 % of the time (clear)"
    waits = replace(found, found=Suspect(Cause.WAITING, 0.84))
    assert sentence(waits).startswith("held back by waiting for something that was not seen, 84 %")
    unknown = replace(found, found=Suspect(Cause.UNKNOWN, 0.0))
    assert sentence(unknown) == "what held it back cannot be told"


def test_what_to_turn() -> None:
    assert remedy_sentence(None) == "no knob here addresses it"
    assert remedy_sentence(Remedy("omp_threads", "lower")) == "a lower omp_threads addresses it"
    said = remedy_sentence(Remedy("bind_to", "another", tuned=False))
    assert "another value of bind_to" in said
    assert "--knob bind_to=" in said


def test_the_median_run_of_a_setting_is_taken() -> None:
    runs = [record(n, FAST, time) for n, time in enumerate((3.0, 9.0, 1.0), 1)]
    warm_up = record(4, FAST, 2.9, purpose=Purpose.WARM_UP)
    other = record(5, BASELINE, 3.0)
    found = median_run([*runs, warm_up, other], FAST, lambda setting: setting)
    assert found is runs[0]
    assert median_run([other], FAST, lambda setting: setting) is None


def test_of_runs_that_were_stopped_the_longest_is_taken() -> None:
    runs = []
    for number, wall_s in enumerate((2.0, 5.0, 3.0), 1):
        made = record(number, FAST, None)
        outcome = replace(made.outcome, ending=stopped(wall_s), wall_s=wall_s)
        runs.append(replace(made, outcome=outcome))
    crashed = record(9, FAST, None)
    assert median_run([*runs, crashed], FAST, lambda setting: setting) is runs[1]
    assert median_run([], FAST, lambda setting: setting) is None


def test_a_knob_at_its_end_is_no_remedy() -> None:
    from tuner.results.explain.cause import can_turn

    threads = Knob("omp_threads", IntRange(1, 4), Flag())
    assert not can_turn(threads, 1, "lower")
    assert can_turn(threads, 2, "lower")
    assert can_turn(threads, None, "lower")
    one = Knob("bind_to", Choice(("core",)), Flag())
    assert not can_turn(one, "core", "another")
    assert can_turn(one, "none", "another")
