"""Ways to search, beside each other: what was tried, with what each of them costs and finds.

    python -m benchmarks.ways [SURFACE.json ...] [--seeds 10] [--plot FILE.png] [--ways tune ...]

Each is a `Policy` as `tune`'s own, replayed on every surface (those of `surfaces/` and those of
`synthetic.py`). Costs are in best runs; regrets are capped at 50 %. The plot shows what is known
after a cost: the mean regret of what is called best, and below it how many studies have a
confirmed verdict. The ways that are not `tune`'s confirm nothing.
"""

from __future__ import annotations

import argparse
import bisect
import math
import shutil
import statistics
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import optuna
import sqlalchemy as sa
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.storages import InMemoryStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from benchmarks import replay, synthetic
from benchmarks.search import JOBS, SURFACES, cost_to, middle, quantile
from tuner.config.options import SAMPLERS
from tuner.knobs.space import values
from tuner.model import Ending, Finished, LaunchRecord, Purpose, Setting, Stopped
from tuner.search.stopper import EarlyStopper, Limit, Noise, ProjectionStopper
from tuner.store.rows import RECORD
from tuner.store.store import Store
from tuner.study import optuna_plugins
from tuner.study.history import History
from tuner.study.optuna_study import OptunaStudy
from tuner.study.policy import Policy, SearchThenConfirm, Step, Stop
from tuner.study.reader import Reader
from tuner.study.running_trial import RunningTrial

#: More regret than this counts as this: one that fails, or a study that found nothing.
MOST_REGRET = 0.5

#: Of the lines, told apart with any colour vision (Okabe and Ito, Color Universal Design, 2008).
COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")

#: Costs at which the plot has a point, in best runs.
GRID = tuple(range(1, 81))


def times_s(history: History) -> dict[Setting, list[float]]:
    """The finished runs of each setting."""
    found: dict[Setting, list[float]] = {}
    for record in history.records:
        if isinstance(record.outcome.ending, Finished):
            found.setdefault(record.setting, []).append(record.outcome.ending.elapsed_s)
    return found


@dataclass
class Tpe(Policy):
    """The article's way: Optuna's TPE over the whole space, each point measured once.

    With ``raced`` a trial that cannot win is stopped and told as pruned at its projection.
    """

    raced: bool = False

    def best(self, history: History) -> Setting | None:
        """The lowest single run."""
        found = times_s(history)
        return min(found, key=lambda setting: min(found[setting]), default=None)

    def next(self, history: History) -> Step | Stop:
        """What TPE proposes after all launches so far."""
        if len(history.records) >= history.spec.trials:
            return Stop("trials")
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=history.spec.seed))
        space = {knob.name: _distribution(values(knob.domain)) for knob in history.spec.knobs}
        for record in history.records:
            study.add_trial(_told(record.setting, record.outcome.ending, space))
        study.sampler = optuna.samplers.TPESampler(
            seed=1000 * history.spec.seed + len(history.records)
        )
        setting = Setting.of(study.ask(space).params)
        return Step(Purpose.SEARCH, setting)

    def race(self, history: History, purpose: Purpose, setting: Setting) -> EarlyStopper | None:  # noqa: ARG002
        """If at all, against the median of the best, with what is held likely of the noise."""
        best = self.best(history)
        if best is None or not self.raced:
            return None
        median_s = statistics.median(times_s(history)[best])
        return ProjectionStopper(Limit(median_s, 0.03), Noise(), None)


def _distribution(allowed: Sequence[int | str]) -> BaseDistribution:
    numbers = [value for value in allowed if isinstance(value, int)]
    if len(numbers) == len(allowed) and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return IntDistribution(numbers[0], numbers[-1])
    return CategoricalDistribution(tuple(allowed))


def _told(setting: Setting, ending: Ending, space: dict[str, BaseDistribution]) -> FrozenTrial:
    stopped = isinstance(ending, Stopped)
    finished = isinstance(ending, Finished)
    state = TrialState.COMPLETE if finished else TrialState.PRUNED if stopped else TrialState.FAIL
    return create_trial(
        state=state,
        value=ending.elapsed_s if isinstance(ending, Finished) else None,
        params=setting.as_dict(),
        distributions=space,
        intermediate_values={1: ending.projection_s} if isinstance(ending, Stopped) else {},
    )


class InMemory(Store):
    """In place of a database: two studies of Optuna's, and nothing is kept of the launches."""

    def __init__(self) -> None:
        super().__init__("sqlite://", sa.create_engine("sqlite://"))
        self._memory = InMemoryStorage()
        for name in ("search", "comparison"):
            optuna.create_study(study_name=name, storage=self._memory)

    def search(self, name: str) -> optuna.Study:  # noqa: ARG002 (the method's signature)
        """The only one."""
        return optuna.load_study(study_name="search", storage=self._memory)

    def comparison(self, name: str) -> optuna.Study:  # noqa: ARG002
        """The only one."""
        return optuna.load_study(study_name="comparison", storage=self._memory)

    @property
    def storage(self) -> Any:
        """Where both are."""
        return self._memory

    def last_number(self, name: str) -> int:  # noqa: ARG002
        """As many as were asked for."""
        return len(self.search("").get_trials(deepcopy=False))

    def keep(self, trial_id: int, record: LaunchRecord) -> None:  # noqa: ARG002
        """That it is a launch."""
        self._memory.set_trial_user_attr(trial_id, RECORD, {})


class ReplayedHistory(Reader):
    """Gives what the replay has so far, in place of what the trials say."""

    replayed: History

    def history(self, study: optuna.Study) -> History:  # noqa: ARG002
        """All of it."""
        return self.replayed


@dataclass
class Sampled(Policy):
    """`tune --sampler NAME`: its loop, on a study of Optuna's in memory."""

    sampler: str
    inner: Policy = field(default_factory=SearchThenConfirm)
    _reader: ReplayedHistory = field(default_factory=ReplayedHistory)
    _study: OptunaStudy | None = None
    _running: RunningTrial | None = None
    _trials: dict[int, int] = field(default_factory=dict)  # by the number of the launch

    def best(self, history: History) -> Setting | None:
        """As ours."""
        return self.inner.best(history)

    def next(self, history: History) -> Step | Stop:
        """Ours, but a search is what the sampler suggests."""
        history = replace(history, spec=replace(history.spec, sampler=self.sampler))
        if self._study is None:
            optuna.logging.set_verbosity(optuna.logging.ERROR)
            self._reader.replayed = History.judged(history.spec, ())
            self._study = OptunaStudy(InMemory(), history.spec, self.inner, reader=self._reader)
            self._study.take_up(self._reader.replayed)
        if self._running is not None and self._running.step.purpose.stage.is_of_search:
            self._trials[history.records[-1].number] = self._running.trial.number
        records = tuple(replace(r, trial=self._trials.get(r.number)) for r in history.records)
        self._reader.replayed = history = replace(history, records=records)
        if self._running is not None:
            self._study.tell(self._running, records[-1])
            self._running = None
        step = self.inner.next(history)
        if isinstance(step, Step) and step.purpose.stage.is_of_search:
            self._running = self._study.ask(history, step)
            assert self._running is not None
            step = self._running.step
        return step

    def race(self, history: History, purpose: Purpose, setting: Setting) -> EarlyStopper | None:
        """As ours."""
        return self.inner.race(history, purpose, setting)


WAYS: dict[str, Callable[[], Policy]] = {
    "tune": SearchThenConfirm,
    "tune --live on": SearchThenConfirm,
    **{
        f"tune --sampler {name}": partial(Sampled, name)
        for name in SAMPLERS
        if name != "tune" and optuna_plugins.lacks(name) == []
    },
    "TPE, all run to their end": Tpe,
    "TPE, raced": partial(Tpe, raced=True),
}


@dataclass(frozen=True)
class Replayed:
    """One study: the cost and the regret of what was called best after each launch."""

    way: str
    surface: str
    costs: tuple[float, ...]
    regrets: tuple[float, ...]
    to_5: float
    to_2: float
    confirmed_at: float  # the cost after which the verdict was proven; infinite: never

    def at(self, cost: float) -> float:
        """The regret at a cost."""
        place = bisect.bisect_right(self.costs, cost)
        return MOST_REGRET if place == 0 else self.regrets[place - 1]


def study(task: tuple[str, Path, int]) -> Replayed:
    """Replay one study."""
    way, path, seed = task
    surface = replay.load(path)
    options = {"confirm": "auto" if way.startswith("tune") else "none"}
    options["live"] = "on" if way == "tune --live on" else "off"
    spec = replay.spec(surface, seed=seed, options=options)
    done = replay.play(surface, spec, seed, WAYS[way]())
    steps, finding = done.searched, done.finding
    is_proven = finding is not None and finding.claim != "inconclusive"
    return Replayed(
        way=way,
        surface=surface.name,
        costs=tuple(step.t_s / surface.unit_s for step in steps),
        regrets=tuple(min(MOST_REGRET, surface.regret(step.incumbent)) for step in steps),
        to_5=cost_to(0.05, surface, steps),
        to_2=cost_to(0.02, surface, steps),
        confirmed_at=done.launches[-1].t_s / surface.unit_s if is_proven else math.inf,
    )


def table(results: Sequence[Replayed]) -> None:
    """Print a line a way."""
    titles = ("cost", "to 5 %", "90th", "to 2 %", "regret %", "90th", "proven")
    print("way".ljust(28), *(title.rjust(9) for title in titles))
    for way in dict.fromkeys(result.way for result in results):
        own = [result for result in results if result.way == way]
        last = [result.regrets[-1] for result in own]
        figures = (
            statistics.mean(result.costs[-1] for result in own),
            middle([result.to_5 for result in own]),
            quantile([result.to_5 for result in own], 0.9),
            middle([result.to_2 for result in own]),
            100 * statistics.mean(last),
            100 * quantile(last, 0.9),
            middle([result.confirmed_at for result in own]),
        )
        print(way.ljust(28), *(f"{figure:9.1f}" for figure in figures))


def plot(results: Sequence[Replayed], path: Path) -> None:
    """Draw mean regret, and the share of confirmed verdicts, against cost."""
    from playwright.sync_api import sync_playwright
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=2, shared_xaxes=True, row_heights=[0.62, 0.38])
    ways = list(dict.fromkeys(result.way for result in results))
    for number, way in reversed(list(enumerate(ways))):  # ours on top
        own = [result for result in results if result.way == way]
        regrets = [100 * statistics.mean(result.at(cost) for result in own) for cost in GRID]
        line = {"color": COLOURS[number % len(COLOURS)], "width": 2, "shape": "hv"}
        if way in {"tune", "tune --live on"}:
            line |= {"color": "black", "width": 4 if way == "tune" else 2}
        elif "--sampler" not in way:  # a way that was tried
            line |= {"dash": "dot"}
        proven = [100 * statistics.mean(r.confirmed_at <= cost for r in own) for cost in GRID]
        figure.add_scatter(x=GRID, y=regrets, name=way, line=line, row=1, col=1)
        figure.add_scatter(x=GRID, y=proven, line=line, showlegend=False, row=2, col=1)
    figure.update_layout(
        template="plotly_white",
        xaxis2_title="cost so far, in best runs",
        yaxis_title="regret of what is called best, %, mean",
        yaxis_type="log",
        yaxis_tickvals=[1, 2, 5, 10, 20, 50],
        yaxis2_title="confirmed verdicts, %",
        yaxis2_range=[0, 100],
        margin={"t": 20, "r": 20},
        legend={"traceorder": "reversed", "x": 1.01, "xanchor": "left", "y": 1},
        width=1100,
        height=760,
    )
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page_file = Path(folder) / "plot.html"  # plotly itself makes no pictures
        figure.write_html(page_file)
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(viewport={"width": 1120, "height": 780})
        page.goto(page_file.as_uri())
        page.wait_for_selector(".legend")
        page.screenshot(path=path)
        browser.close()


def main() -> None:
    """Replay, print, and draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("surfaces", nargs="*", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS, metavar="WAY")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ours = sorted(SURFACES.glob("*.json"))
        paths = options.surfaces or [*ours, *synthetic.write(Path(folder))]
        tasks = list(product(options.ways, paths, range(options.seeds)))
        with ProcessPoolExecutor(JOBS) as pool:
            results = list(pool.map(study, tasks, chunksize=4))
    print(f"{len(paths)} surfaces, {options.seeds} seeds; costs in best runs")
    table(results)
    if options.plot is not None:
        plot(results, options.plot)


if __name__ == "__main__":
    main()
