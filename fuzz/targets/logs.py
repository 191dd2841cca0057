"""The log of the program under test, and what is worked out of one while it runs."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

from fuzz.target import Target
from fuzz.texts import Texts
from fuzz.trees import Trees
from tuner.launch.clocks import judge_by
from tuner.launch.objectives.logreport import LogReport, _Version
from tuner.model import Clock, Failed, Finished, ObjectiveSpec, Progress, Stopped
from tuner.search import stopper, throughput
from tuner.store import codec

_KEYS = ("elapsed_time", "iteration", "epoch", "epoch_detail", "loss", "main/loss")
_ENTRIES: list[dict[str, Any]] = [
    {"epoch": n, "iteration": 10 * n, "elapsed_time": 1.5 * n, "main/loss": 1 / n}
    for n in (1, 2, 3)
]
_LOGS = [
    _ENTRIES,
    _ENTRIES[:1],
    [{"iteration": 0, "elapsed_time": 0}, {"iteration": 5, "elapsed_time": 3}],
    [{"iteration": n, "elapsed_time": n / 3, "epoch_detail": n / 7} for n in range(1, 9)],
]

_OUT = Path("/out")
_JSON = Trees(_LOGS, _KEYS)
_LINES = Texts(
    [b'{"iteration": 1, "elapsed_time": 0.5}\n{"iteration": 2, "elapsed_time": 1.0, "epoch": 1}\n'],
    (b'"iteration"', b'"elapsed_time"', b"\n", b"{", b"}", b"[", b"]", b": ", b", "),
)
_YAML = Texts(
    [
        b"- iteration: 1\n  elapsed_time: 0.5\n- iteration: 2\n  elapsed_time: 1.5\n",
        b"- {epoch: 1, iteration: 3, elapsed_time: 2}\n",
        b"- &a\n  iteration: 1\n  elapsed_time: 1\n- <<: *a\n  iteration: 2\n",
    ],
    (
        b"&a ",
        b"*a",
        b"<<: *a",
        b"!!binary ",
        b"!!set ",
        b"!!float ",
        b"!!int ",
        b"!!omap ",
        b"2001-01-01",
        b"2001-99-99",
        b"1:30:60",
        b"0o17",
        b"1_000",
        b".inf",
        b"-.inf",
        b".nan",
        b"? ",
        b"- ",
        b": ",
        b"|\n",
        b">\n",
        b"!!python/object:os.system ",
        b"---\n",
        b"...\n",
        b"&a [*a]",
        b"[*a,*a,*a]",
        b"!!timestamp x",
        b"%YAML 1.1\n",
    ),
)


class _Memory(LogReport):
    """The objective with a log that lies in no file."""

    def __init__(self, data: bytes, suffix: str) -> None:
        super().__init__(ObjectiveSpec(), sleep=lambda _: None)
        self._data, self._suffix = data, suffix

    def _find(self, out_dir: Path) -> _Version | None:
        return _Version(out_dir / f"log{self._suffix}", 1, len(self._data), 1)

    def _read(self, _version: _Version) -> bytes:  # type: ignore[override]
        return self._data


def read(data: bytes, suffix: str) -> tuple[Progress, ...]:
    """Read a log as a trial does: what comes of it can be stored, compared and shown."""
    log = _Memory(data, suffix)
    progress = log.progress(_OUT)
    for step in progress:
        assert type(step.iteration) is int, step
        assert 0 <= step.iteration < 2**63, "no database holds this iteration"
        assert 0 <= step.elapsed_s < math.inf, step
    for early, late in itertools.pairwise(progress):
        assert early.elapsed_s <= late.elapsed_s, "a clock that goes backwards"
        assert early.iteration <= late.iteration, "iterations that go backwards"
    ending = log._attempt(_OUT)  # `result` tries a bad one again
    if isinstance(ending, Failed):
        ending.reason.encode()
        assert ending.reason.isprintable(), ending.reason
        assert len(ending.reason) < 2_000, "a reason that nobody reads"
    else:
        _check_finished(ending)
    return progress


def _check_finished(ending: Finished) -> None:
    assert 0 < ending.elapsed_s < math.inf, ending
    assert 0 <= ending.iterations < 2**63, "no database holds this iteration"
    assert ending.epochs is None or 0 < ending.epochs < math.inf, ending
    assert codec.loads(Finished, codec.dumps(ending)) == ending, ending


def log_json(data: bytes) -> None:
    """Chainer's log: a list; and a file without a suffix, which is told by its content."""
    read(data, "" if len(data) % 2 else ".json")


def log_lines(data: bytes) -> None:
    """JSON lines."""
    read(data, ".jsonl")


def log_yaml(data: bytes) -> None:
    """YAML, as pytorch-pfn-extras writes it too."""
    read(data, ".yaml")


def course(data: bytes) -> None:
    """A log is read, and a running trial is judged by it."""
    progress = read(data, ".json")
    throughput.Pace.of(progress)
    throughput.startup_s(progress)
    log: list[tuple[int, float]] = []
    for step in progress:
        if not log or step.iteration > log[-1][0]:
            log.append((step.iteration, step.elapsed_s))
    noise = stopper.Noise(startup_s=1.0)
    clocks: tuple[Clock, ...] = ("elapsed", "wall", "steady")
    for seconds, iterations in ((1e-9, 10**9), (5.0, 100), (1e12, None)):
        race = stopper.ProjectionStopper(stopper.Limit(seconds), noise, iterations)
        for judge in (judge_by(clock, race, iterations) for clock in clocks):
            verdict = None if judge is None else judge(log, 60.0, 1.0 if log else None)
            if isinstance(verdict, Stopped):
                assert not math.isnan(verdict.projection_s), verdict
                assert codec.loads(Stopped, codec.dumps(verdict)) == verdict, verdict


TARGETS = (
    Target("log_json", log_json, _JSON, share=2.0),
    Target("log_lines", log_lines, _LINES, share=2.0),
    Target("log_yaml", log_yaml, _YAML, share=0.1),
    Target("course", course, _JSON, share=0.4),
)
