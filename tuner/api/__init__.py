"""``tuner.tune``: a study as a Python program or a notebook asks for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.api.progress import show, trial_bar
from tuner.config.spec import build_spec
from tuner.config.study_file import check, load
from tuner.model import Result, StudySpec
from tuner.model.errors import UsageError
from tuner.model.wording import one_line
from tuner.results import study_view, words
from tuner.store import Store, resolve_url
from tuner.study import tuning
from tuner.study.events import Event

if TYPE_CHECKING:
    import optuna


class TuneResult(Result):
    """A :class:`tuner.model.Result`; a notebook shows its verdict and its times.

    Attributes:
        view: The study with its launches, from which reports and exports are made.
    """

    view: study_view.StudyView
    _url: str

    def __init__(self, view: study_view.StudyView, url: str) -> None:
        super().__init__(**vars(view.result))
        vars(self).update(view=view, _url=url)

    @property
    def study(self) -> optuna.Study:
        """The Optuna study, for ``optuna.visualization``; ``UsageError`` if it was deleted."""
        return Store.open(self._url, create=False).search(self.name)

    def __repr__(self) -> str:
        return f"<TuneResult {self.name}: {words.verdict(self.view)}>"

    def _repr_html_(self) -> str:
        texts = [tuple(map(escape, row)) for row in words.summary(self.view)]
        rows = "".join(f"<tr><th>{name}</th><td>{text}</td></tr>" for name, text in texts)
        title = escape(f"{self.name}: {words.verdict(self.view)}")
        return one_line(f"<p><strong>{title}</strong></p><table>{rows}</table>", None)


def tune(
    command: str | Sequence[str] | Path | StudySpec,
    *,
    ranks: int | None = None,
    knobs: Mapping[str, Iterable[int | str] | Mapping[str, Any]] | None = None,
    objective: str | Mapping[str, Any] | None = None,
    storage: str | Path | None = None,
    run_dir: str | Path | None = None,
    fresh: bool = False,
    remeasure: bool = False,
    wait: bool = False,
    progress: bool | None = None,
    on_event: Callable[[Event], None] | None = None,
    **options: Any,
) -> TuneResult:
    """Find the fastest setting of a command, and confirm it against the baseline.

    A study of that name is continued; a finished one only gives its result.

    Args:
        command: What each rank runs: a text that is split as a shell would, or a list of words.
            Or the ``Path`` of a study file, whose keys the other arguments replace; or a
            ``StudySpec``, which takes none of them.
        ranks: MPI ranks; a study file calls it ``mpi_procs``. Default: one for each GPU, else 2.
        knobs: What is tuned: ``range(1, 9)``, ``[1, 2, 4]``, ``"1..8"`` or a table as in a study
            file for each name. Default: the usual knobs and those in the command.
        objective: What ``--objective`` takes, such as ``"wall"``, or a table as in a study file.
        storage: SQLite file or URL. Default: ``TUNE_STORAGE``, else ``studies/tune.db``.
        run_dir: The folder for what launches write. Default: beside the SQLite file.
        fresh: Delete what the study has and begin anew.
        remeasure: Keep what the study has, but count none of its times any more.
        wait: Wait while another process measures on this host.
        progress: Show a bar; ``None``: only in a notebook. Nothing else is ever printed.
        on_event: Called with each :data:`tuner.study.events.Event`.
        options: Any other key of a study file: ``name``, ``trials``, ``budget_s`` (seconds, or a
            text such as ``"10m"``), ``min_gain`` (such as ``"1%"``), ``seed``, ``job`` …

    Returns:
        What was found, with the Optuna study; a notebook shows it as a table.

    Raises:
        UsageError: Arguments that cannot be used, each by its name; or a study that belongs to
            another command, rank count, MPI or machine.
        NothingMeasuredError: Nothing worked; ``LimitReachedError`` if only time was short.
        BusyError: The host or the database is in use.
        TunerError: The disk is full, or another failure of the machine.
        StudyInterrupted: A ``KeyboardInterrupt``: all processes are ended, and what was measured
            is kept. The same call goes on.
    """
    own = {"mpi_procs": ranks, "knobs": knobs, "objective": objective}
    given = options | {name: value for name, value in own.items() if value is not None}
    if given and isinstance(command, StudySpec):
        raise UsageError(f"a StudySpec takes no {next(iter(given))}", "give it to build_spec")
    spec = command if isinstance(command, StudySpec) else _spec(command, given)
    database = str(storage) if storage else None
    with trial_bar(spec, progress) as bar:

        def tell(event: Event) -> None:
            show(bar, spec, event)
            if on_event is not None:
                on_event(event)

        tuning.tune(
            spec,
            storage=database,
            outputs=Path(run_dir) if run_dir else None,
            fresh=fresh,
            remeasure=remeasure,
            wait=wait,
            on_event=tell,
        )
    url = resolve_url(database, os.environ)
    with Store.open(url, create=False) as store:
        return TuneResult(study_view.load(store, spec.name), url)


def _spec(command: str | Sequence[str] | Path, given: Mapping[str, Any]) -> StudySpec:
    """The study that a command or a file, and arguments in the terms of a file, ask for."""
    file = load(command) if isinstance(command, Path) else {"command": command}
    document: dict[str, Any] = {**file, **given}
    if isinstance(document.get("knobs"), Mapping):
        document["knobs"] = {name: _entry(knob) for name, knob in document["knobs"].items()}
    typed = {"name": given.get("name")}  # as it is, without the number of ranks
    if isinstance(document.get("objective"), str):
        typed["objective"] = document.pop("objective")
    try:
        check(document, "tune()")
    except UsageError as error:
        said = error.message.replace("mpi_procs", "ranks")
        raise UsageError(said, "help(tuner.tune) shows what it takes") from None
    return build_spec(file=document, options=typed)


def _entry(values: object) -> object:
    """A knob's values as a study file has them; what cannot be any is left to the check."""
    if isinstance(values, range) and values and values.step == 1:
        return {"range": f"{values[0]}..{values[-1]}"}
    if isinstance(values, str):
        return {"range": values}
    if isinstance(values, Mapping) or not isinstance(values, Iterable):
        return values
    return {"values": list(values)}
