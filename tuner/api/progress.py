"""A bar of the trials while a study runs: a widget in a notebook, else a line on stderr."""

from __future__ import annotations

import sys
import time

from tqdm.auto import tqdm

from tuner.model import Purpose, StudySpec, StudyState, figures, wording
from tuner.results.tally import Tally
from tuner.study.events import Event, LaunchProgress, LaunchStarted, Note, StudyEnded

#: What goes on, by what a launch is for; all else is the search.
_PHASES = {Purpose.WARM_UP: "warm-up", Purpose.CONFIRM: "confirmation"}


def is_notebook() -> bool:
    """True in a kernel of Jupyter, VS Code or Colab."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and "IPKernelApp" in shell.config


class TrialBar:
    """Shows events of one study; it is closed at the end of the block."""

    def __init__(self, spec: StudySpec) -> None:
        self._name, self._tally = spec.name, Tally(time.monotonic)
        self._bar = tqdm(total=spec.trials, desc=spec.name, unit="setting", mininterval=0.5)
        self._bar.miniters = 0  # its clock goes on during a launch

    def __enter__(self) -> TrialBar:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def __call__(self, event: Event) -> None:
        """Show one event."""
        tally, bar = self._tally, self._bar
        tally.add(event)
        if isinstance(event, Note):
            bar.write(wording.one_line(event.text, None))
        elif isinstance(event, LaunchProgress):
            bar.update(0)
        elif isinstance(event, StudyEnded) and event.result.state is StudyState.FINISHED:
            began_s, done = bar.start_t, event.result.trials
            bar.reset(done)  # it is over: these were enough
            bar.start_t = began_s
            bar.set_description(self._name, refresh=False)
            bar.update(done)
        else:
            if isinstance(event, LaunchStarted):
                phase = _PHASES.get(event.purpose, "search")
                bar.set_description(f"{self._name}, {phase}", refresh=False)
            if tally.best_s is not None:
                best = figures.shown(tally.objective, tally.best_s)
                ratio = f" ({wording.times(tally.ratio)})" if tally.ratio else ""
                bar.set_postfix_str(f"best {best}{ratio}", refresh=False)
            bar.n = tally.done
            bar.refresh()
