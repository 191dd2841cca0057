"""A whole study on a surface: the search, then the confirmation, on a virtual clock."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from tuner import confirm, racing
from tuner.confirm import Finding, Pair
from tuner.knobs import ROLES
from tuner.racing import GoOn, Noise, Stop
from tuner.replay.machine import Judge, Played, VirtualMachine
from tuner.replay.surface import Key, Surface
from tuner.search import Done, KnobAxis, Launch, Observation, Pace, Space
from tuner.search.history import Ending

Verdict = Literal["faster", "no significant gain", "baseline fails"]

#: The confirmation may cost this share of the search; then the next look is the last.
CONFIRMATION_SHARE = 0.5


class Searcher(Protocol):
    """What says which launch is next, and which setting is best; pure."""

    def next(self, history: Sequence[Observation], /) -> Launch | Done: ...

    def best(self, history: Sequence[Observation], /) -> Key | None: ...


@dataclass(frozen=True)
class Step:
    """One launch of the replay; ``ending`` is ``None`` for one of the confirmation."""

    t_s: float  # the clock when it ended
    setting: Key
    ending: Ending | None
    elapsed_s: float | None  # of a stopped launch: how long it had run for certain
    incumbent: Key | None
    purpose: str = "confirm"
    stop: Stop | None = None


@dataclass(frozen=True)
class Study:
    """What the replay came to."""

    steps: tuple[Step, ...]
    ended: str  # why the search ended
    best: Key | None
    export: Key
    reference: Key | None  # what the best was compared with
    finding: Finding | None
    verdict: Verdict
    failure: str  # why the defaults fail, or nothing
    search_s: float
    confirm_s: float


def space(surface: Surface) -> Space:
    """The surface's space as the search sees it."""
    knobs = tuple(
        KnobAxis(name, values, ROLES.get(name), default)
        for (name, values), default in zip(surface.knobs.items(), surface.default, strict=True)
    )
    return Space(knobs, surface.ranks, surface.cores, surface.default)


def play(surface: Surface, search: Searcher, seed: int) -> Study:
    """Search the surface, and confirm what was found.

    Args:
        surface: The recorded job.
        search: The very code that the live search uses.
        seed: Which of the recorded runs are drawn.
    """
    return _Replay(surface, search, seed).study()


class _Replay:
    def __init__(self, surface: Surface, search: Searcher, seed: int) -> None:
        self.surface, self.search = surface, search
        self.machine = VirtualMachine(surface, 7919 * seed + 13)
        self.history: list[Observation] = []
        self.steps: list[Step] = []
        self.noise = Noise()
        self.failure: str | None = None

    def study(self) -> Study:
        done = self._search()
        search_s = self.machine.clock_s
        best = self.search.best(self.history)
        finding, reference = None, None
        if best is not None:
            finding, reference = self._confirm(best)
        verdict: Verdict = "no significant gain"
        if self.failure is not None:
            verdict = "baseline fails"
        elif finding is not None and finding.claim == "faster":
            verdict = "faster"
        return Study(
            steps=tuple(self.steps),
            ended=done.reason,
            best=best,
            export=self._export(best, reference, finding, verdict),
            reference=reference,
            finding=finding,
            verdict=verdict,
            failure=self.failure or "",
            search_s=search_s,
            confirm_s=self.machine.clock_s - search_s,
        )

    def _search(self) -> Done:
        while True:
            step = self.search.next(self.history)
            if isinstance(step, Done):
                return step
            key = self.surface.default if step.setting is None else step.setting
            self.noise = step.noise
            played = self.machine.launch(key, self._racing(step))
            self._record(step, key, played)

    def _racing(self, step: Launch) -> Judge | None:
        if step.limit is None:
            return None

        def judge(
            log: list[tuple[int, float]], since_s: float, startup_s: float | None
        ) -> GoOn | Stop:
            return racing.judge(
                log,
                self.surface.iterations,
                since_launch_s=since_s,
                startup_s=startup_s,
                limit=step.limit,
                noise=step.noise,
            )

        return judge

    def _record(self, step: Launch, key: Key, played: Played) -> None:
        stop = played.stop
        self.history.append(
            Observation(
                setting=key,
                ending=played.ending,
                purpose=step.purpose,
                wall_s=played.wall_s,
                elapsed_s=played.elapsed_s,
                projection_s=stop.projection_s if stop else None,
                projection_log_sd=stop.log_sd if stop else 0.3,
                startup_s=played.startup_s,
                pace=Pace.of(played.progress),
            )
        )
        if key == self.surface.default and played.ending == "failed":
            self.failure = played.reason
        self.steps.append(
            Step(
                t_s=self.machine.clock_s,
                setting=key,
                ending=played.ending,
                elapsed_s=stop.bound_s if stop else played.elapsed_s,
                incumbent=self.search.best(self.history),
                purpose=step.purpose,
                stop=stop,
            )
        )

    def _confirm(self, best: Key) -> tuple[Finding | None, Key | None]:
        """Compare with the defaults, or where they fail with the first guess that worked."""
        if self.failure is None and best != self.surface.default:
            finding = self._pairs(best, self.surface.default)
            if finding is not None:
                return finding, self.surface.default
        if self.failure is None:
            return None, self.surface.default
        worked = [seen.setting for seen in self.history if seen.ending == "finished"]
        reference = next((key for key in worked if key is not None), best)
        return (None if reference == best else self._pairs(best, reference)), reference

    def _pairs(self, best: Key, reference: Key) -> Finding | None:
        """Launch both in turn until it is settled; ``None`` where the reference fails."""
        searched_s = self.machine.clock_s
        at_least = confirm.plan(self._seen_s(reference) / self._seen_s(best))
        pairs: list[Pair] = []
        while True:
            spent_s = self.machine.clock_s - searched_s
            may_go_on = spent_s < CONFIRMATION_SHARE * searched_s
            step = confirm.judge(pairs, at_least=at_least, may_go_on=may_go_on)
            if isinstance(step, Finding):
                return step
            times: dict[str, float] = {}
            for side in step.order:
                limit_s = step.reference_limit_s if side == "reference" else None
                key = best if side == "best" else reference
                time_s = self._run(key, best, limit_s)
                if time_s is None:
                    return None
                times[side] = time_s
            pairs.append(Pair(times["reference"], times["best"]))

    def _run(self, key: Key, best: Key, limit_s: float | None) -> float | None:
        """One launch of the confirmation: its time or a bound for it, ``None``: it failed."""

        def judge(
            log: list[tuple[int, float]], since_s: float, startup_s: float | None
        ) -> GoOn | Stop:
            bound_s = racing.elapsed_bound(log, since_s, startup_s, self.noise)
            if limit_s is None or bound_s <= limit_s:
                return GoOn()
            return Stop(bound_s, bound_s, (bound_s, math.inf), 0.5, "limit")

        played = self.machine.launch(key, None if limit_s is None else judge)
        elapsed_s = played.stop.bound_s if played.stop else played.elapsed_s
        if played.ending == "failed":
            self.failure = played.reason
        self.steps.append(Step(self.machine.clock_s, key, None, elapsed_s, best, stop=played.stop))
        return elapsed_s

    def _seen_s(self, key: Key) -> float:
        """What the search saw of a setting: its runs, else where it was going."""
        seen = [each for each in self.history if each.setting == key]
        times = [each.elapsed_s for each in seen if each.elapsed_s is not None]
        times = times or [each.projection_s for each in seen if each.projection_s is not None]
        return statistics.median(times) if times else 1.0

    def _export(
        self, best: Key | None, reference: Key | None, finding: Finding | None, verdict: Verdict
    ) -> Key:
        """What is handed over: the defaults, unless they fail or something faster is proven."""
        if best is None or verdict == "no significant gain":
            return self.surface.default
        if finding is not None and finding.claim == "slower" and reference is not None:
            return reference
        return best
