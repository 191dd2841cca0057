"""What speaks against a study's figures although its launches ended with exit code 0."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.study_surface import BEST, SPEC, ran, record
from tuner.model import BASELINE, LaunchRecord, Load, Observation, Outcome, Purpose, Setting
from tuner.study.doubts import doubts
from tuner.study.history import History

THIRD = Setting.of({"omp_threads": 1, "iterator_workers": 1})


def doubts_about(*outcomes: Outcome) -> list[str]:
    """What is said of launches of the defaults that came to this."""
    made = [record(n, BASELINE, Purpose.BASELINE, each) for n, each in enumerate(outcomes, start=1)]
    return doubts(History.judged(SPEC, made), None)


@pytest.mark.parametrize(
    ("walls_s", "is_doubted"),
    [
        ((3.6, 0.3, 0.5), True),
        ((3.6, 0.3), False),  # one later launch is no pattern
        ((0.9, 0.2, 0.2), False),  # the caches were cold
        ((0.3, 3.6, 0.3, 0.3), False),
    ],
)
def test_a_first_launch_that_left_the_others_little_to_do(
    walls_s: tuple[float, ...], is_doubted: bool
) -> None:
    texts = doubts_about(*(replace(ran(1.0), wall_s=s, progress=()) for s in walls_s))
    said = "the first launch took 3.60 s, the next 2 at most 0.500 s"
    assert any(said in text for text in texts) == is_doubted
    assert any("--prepare" in text for text in texts) == is_doubted


def test_processes_that_were_killed_with_the_launch_are_said() -> None:
    left = Observation(left_running=(("python3", True), ("python3", False), ("worker", False)))
    (text,) = doubts_about(replace(ran(1.0), observation=left))
    assert text.startswith("3 processes were still computing when the command of launch 1 ended")
    assert "(python3, worker)" in text and "--wait-for-children" in text


def wrote(number: int, setting: Setting, output_bytes: int, *files: str) -> LaunchRecord:
    purpose = Purpose.BASELINE if setting == BASELINE else Purpose.SEARCH
    what = Observation(output_bytes=output_bytes, files=files)
    time_s = 1.0 if setting == BEST else 2.0
    return record(number, setting, purpose, replace(ran(time_s), observation=what))


@pytest.mark.parametrize(
    ("best", "said"),
    [
        ((1000, "log", "model.h#"), []),
        ((30, "log", "model.h#"), ["launch 3 printed 30 bytes, the defaults 1000: has it done"]),
        ((900, "log"), ["launch 3 wrote no model.h#, which the defaults wrote"]),
    ],
)
def test_a_best_that_wrote_less_than_the_others(best: tuple[int, str], said: list[str]) -> None:
    others = [wrote(1, BASELINE, 1000, "log", "model.h#"), wrote(2, THIRD, 990, "log", "model.h#")]
    texts = doubts(History.judged(SPEC, [*others, wrote(3, BEST, *best)]), BEST)
    assert [text[: len(start)] for text, start in zip(texts, said, strict=True)] == said


@pytest.mark.parametrize(
    ("loads", "said"),
    [
        ([Load(0.05)] * 8, ""),
        (
            [Load(1.0), *[Load(1.4, "pid 6263 (python)")] * 2],
            "other processes used 1.4 of 4 cores during a launch, above all pid 6263 (python)",
        ),
        (
            [Load(0.0, hot=True), Load(0.0, swapped_bytes=5)],
            "CPUs were slowed down for their temperature in 1 launch; memory was swapped",
        ),
    ],
)
def test_a_machine_that_was_not_quiet_is_told(loads: list[Load], said: str) -> None:
    texts = doubts_about(*(replace(ran(4.0), load=load) for load in loads))
    assert texts == ([f"this machine was not quiet: {said}"] if said else [])
