"""``tuner.tune``: a study as a Python program or a notebook asks for it."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import Progress

from tuner.config.options import OPTIONS, SWITCH
from tuner.config.spec import build_spec
from tuner.config.study_file import check, load
from tuner.model import Result, StudySpec
from tuner.model.errors import TunerError, UsageError
from tuner.model.wording import one_line
from tuner.results import study_view, words
from tuner.results.exporters import json
from tuner.store.store import Store
from tuner.store.urls import resolve_url
from tuner.study import tuning
from tuner.study.events import Event, LaunchStarted, StudyEnded

if TYPE_CHECKING:
    import optuna


class TuneResult(Result):
    """A :class:`tuner.model.Result`; a notebook shows its verdict and its times.

    ``view`` is the study with its launches, from which reports and exports are made.
    """

    view: study_view.StudyView
    _url: str

    def __init__(self, view: study_view.StudyView, url: str) -> None:
        super().__init__(**vars(view.result))
        vars(self).update(view=view, _url=url)

    @property
    def study(self) -> optuna.Study:
        """Return the Optuna study, as for its pictures; ``UsageError`` if it was deleted."""
        return Store.open(self._url, create=False).search(self.name)

    def to_json(self) -> str:
        """Return the document that ``tune --json`` prints; docs/schema.json describes it."""
        return json.dumps(json.result_document(self.view.result, self.view.spec))

    def __repr__(self) -> str:
        return f"<TuneResult {self.name}: {words.verdict(self.view)}>"

    def _repr_html_(self) -> str:
        texts = [tuple(map(escape, row)) for row in words.summary(self.view)]
        rows = "".join(f"<tr><th>{name}</th><td>{text}</td></tr>" for name, text in texts)
        title = escape(f"{self.name}: {words.verdict(self.view)}")
        return one_line(f"<p><strong>{title}</strong></p><table>{rows}</table>", most=None)


#: The arguments of :func:`tune` by the options that do the same; ``{}`` is the value.
_ARGUMENTS = {
    "--storage": "storage={}",
    "--run-dir": "run_dir={}",
    **{f"--{name}": f"{name}=True" for name in ("fresh", "remeasure", "wait")},
    **{row.flag: f"{row.key}={'True' if row.kind is SWITCH else '{}'}" for row in OPTIONS},
    "--log": 'objective={"filename": {}}',
    "--unit": 'objective={"unit": {}}',
    "--maximize": 'objective={"maximize": True}',
    "--knob": 'knobs={"NAME": {}}',
    **{f"--{key}": f'knobs={{"NAME": {{"{key}": {{}}}}}}' for key in ("fix", "baseline")},
}
_CHOICES = {row.flag: row.kind.choices for row in OPTIONS}
#: A whole command line, which stays as it is; or an option, and the word or quotation behind it.
_OPTION = re.compile(
    r"`tune [^`]*`|\btune (?:-|…|init )[^\n]*|(?<![\w-])(?P<option>--[a-z][a-z-]*)(?![\w-])"
    r"(?:[ =](?P<value>'[^'\n]*'|\"[^\"\n]*\"|\w[][\w:=/.,%@-]*(?<=[]\w%])))?"
)


def _argument(match: re.Match[str]) -> str:
    """Return an option with its value, if that is none of the sentence's words, as an argument."""
    option, value = match["option"] or "", match["value"] or ""
    form = _ARGUMENTS.get(option, option)
    looks_like_one = value in _CHOICES.get(option, ()) or re.search(r"[\d'\":=/.,]|^[A-Z]+$", value)
    if "{}" not in form or not (looks_like_one or (value and option == "--knob")):
        return match[0].replace(option, re.sub(r"=.*\{\}.*", "", form), 1)
    name, _, value = value.partition("=") if "NAME" in form else ("", "", value)
    quoted = value if re.fullmatch(r"\d+(\.\d+)?|[A-Z]+|['\"].*|", value) else f'"{value}"'
    return form.replace("NAME", name).replace("{}", quoted or "{}")


@contextmanager
def _errors_in_python() -> Iterator[None]:
    """Let every error name the arguments of :func:`tune`."""
    try:
        yield
    except TunerError as error:
        texts = error.message, error.hint
        error.message, error.hint = (_OPTION.sub(_argument, text) for text in texts)
        error.args, error.__notes__ = (error.message,), [error.hint] if error.hint else []
        raise


@_errors_in_python()
def tune(
    command: str | Sequence[str] | Path | StudySpec,
    *,
    storage: str | Path | None = None,
    run_dir: str | Path | None = None,
    fresh: bool = False,
    remeasure: bool = False,
    same_program: bool = False,
    wait: bool = False,
    progress: bool | None = None,
    on_event: Callable[[Event], None] | None = None,
    **options: Any,
) -> TuneResult:
    """Find the fastest setting of a command, and confirm it against the baseline.

    A study of that name is continued; a finished one only gives its result.

    Args:
        command: What each rank runs: a text that is split as a shell would, or a list of words.
            Or the ``Path`` of a study file, whose keys the options replace; or a ``StudySpec``,
            which takes none of them.
        storage: SQLite file or URL. Default: ``TUNE_STORAGE``, else ``studies/tune.db``.
        run_dir: The folder for what launches write. Default: beside the SQLite file.
        fresh: Delete what the study has and begin anew.
        remeasure: Keep what the study has, but count none of its times any more.
        same_program: Go on though the program was edited: it takes as long as before.
        wait: Wait while another process measures on this host.
        progress: Show a bar of the settings; ``None``: only in a notebook. Nothing else is printed.
        on_event: Called with each :data:`tuner.study.events.Event`.
        options: Any key of a study file: ``mpi_procs``, ``name``, ``trials``, ``budget_s``
            (seconds, or a text such as ``"10m"``), ``min_gain`` (such as ``"1%"``), ``job`` …
            ``knobs`` takes for each name ``range(1, 9)``, ``[1, 2, 4]``, ``"1..8"`` or a table as
            in a study file; ``objective`` also what ``--objective`` takes, such as ``"wall"``.

    Raises:
        UsageError: Arguments that cannot be used, each by its name; or a study that belongs to
            another command, rank count, MPI or machine.
        NothingMeasuredError: Nothing worked; ``LimitReachedError`` if only time was short.
        BusyError: The host or the database is in use.
        TunerError: The disk is full, or another failure of the machine.
        StudyInterrupted: A ``KeyboardInterrupt``: all processes are ended, and what was measured
            is kept. The same call goes on.
    """
    if options and isinstance(command, StudySpec):
        raise UsageError(f"a StudySpec takes no {next(iter(options))}", "give it to build_spec")
    spec = command if isinstance(command, StudySpec) else _spec(command, options)
    spec = replace(spec, same_program=same_program)
    database = str(storage) if storage else None
    ipython = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    is_notebook = ipython is not None and "IPKernelApp" in ipython.config
    progress = is_notebook if progress is None else progress
    if progress and is_notebook and find_spec("ipywidgets") is None:
        warnings.warn("no bar is shown; next: pip install ipywidgets", stacklevel=3)
        progress = False
    with Progress(console=Console(stderr=True), disable=not progress) as bar:
        settings = bar.add_task(spec.name, total=spec.trials)

        def update_bar(event: Event) -> None:
            if isinstance(event, LaunchStarted) and event.trial is not None:
                bar.update(settings, completed=event.trial - 1)
            elif isinstance(event, StudyEnded):
                tried = event.result.trials  # a study that is over needed no more settings
                bar.update(settings, total=tried, completed=tried)
            if on_event is not None:
                on_event(event)

        tuning.tune(
            spec,
            storage=database,
            outputs=Path(run_dir) if run_dir else None,
            fresh=fresh,
            remeasure=remeasure,
            wait=wait,
            on_event=update_bar,
        )
    url = resolve_url(database, os.environ)
    with Store.open(url, create=False) as store:
        return TuneResult(study_view.load(store, spec.name), url)


def _spec(command: str | Sequence[str] | Path, options: dict[str, Any]) -> StudySpec:
    """Build the study from a command or a study file, and from options by the keys of a file."""
    file = load(command) if isinstance(command, Path) else {"command": command}
    document: dict[str, Any] = {**file, **options}
    if isinstance(document.get("knobs"), Mapping):
        document["knobs"] = {name: _knob_entry(knob) for name, knob in document["knobs"].items()}
    typed = {"name": options.get("name")}  # a typed name gets no number of ranks
    if isinstance(document.get("objective"), str):
        typed["objective"] = document.pop("objective")
    check(document, "tune()", hint="help(tuner.tune) says what it takes")
    return build_spec(file=document, options=typed)


def _knob_entry(values: object) -> object:
    """Return a knob's values as a study file has them; other objects are left for the check."""
    if isinstance(values, range) and values and values.step == 1:
        return {"range": f"{values[0]}..{values[-1]}"}
    if isinstance(values, str):
        return {"range": values}
    if isinstance(values, Mapping) or not isinstance(values, Iterable):
        return values
    return {"values": list(values)}
