"""A bar of the trials while a study runs: a widget in a notebook, else a line on stderr."""

from __future__ import annotations

import sys
from typing import Any

from tqdm.auto import tqdm

from tuner.model import StudySpec, StudyState, figures, wording
from tuner.study.events import Event, LaunchEnded, LaunchStarted, Note, StudyEnded


def trial_bar(spec: StudySpec, is_wanted: bool | None) -> Any:
    """The bar of a study, closed at the end of its block; ``None``: only in a notebook's kernel."""
    if is_wanted is None:
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        is_wanted = shell is not None and "IPKernelApp" in shell.config
    return tqdm(total=spec.trials, desc=spec.name, unit="setting", disable=not is_wanted)


def show(bar: Any, spec: StudySpec, event: Event) -> None:
    """Show an event of the study."""
    if bar.disable:
        return
    if isinstance(event, Note):
        bar.write(wording.one_line(event.text, None))
    elif isinstance(event, LaunchStarted):
        bar.set_description(f"{spec.name}, {event.purpose}", refresh=False)
        bar.n = bar.n if event.trial is None else event.trial - 1
        bar.refresh()
    elif isinstance(event, LaunchEnded) and event.is_best and event.measurement is not None:
        bar.set_postfix_str(f"best {figures.typical(spec.objective, event.measurement)}")
    elif isinstance(event, StudyEnded) and event.result.state is StudyState.FINISHED:
        bar.reset(event.result.trials)  # it is over: these were enough
        bar.set_description(spec.name, refresh=False)
        bar.update(event.result.trials)
