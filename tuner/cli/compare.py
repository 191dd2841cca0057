"""``tune compare``: two studies of one job, before and after a change."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from signal import SIGINT
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import exits
from tuner.cli.base import TYPED, TuneCommand
from tuner.cli.options import json_option, option, storage_option, study_names
from tuner.config.options import SHARE
from tuner.model.errors import UsageError

if TYPE_CHECKING:
    from tuner.model import StudySpec
    from tuner.results.compare import Comparison
    from tuner.results.study_view import StudyView
    from tuner.study.events import Event

#: The verdict says whether it is worse by more than this share unless --fail-if-slower names one.
WORSE = 0.05


@click.command(
    "compare",
    cls=TuneCommand,
    help="Compare two studies of one job, before and after a change: the best setting of each, and"
    " each setting that both have measured, with 95 % intervals; then what else differs. A study is"
    " named, or given as the JSON file of `tune export`.",
    examples=(
        ("tune compare mnist mnist-2", "two studies of the database"),
        ("tune compare mnist mnist-2 --remeasure", "launches both if their times cannot tell"),
        (
            "tune compare main.json branch.json --fail-if-slower 5%",
            "exit code 6 if it is proven to be slower by more than 5 %",
        ),
    ),
)
@click.argument("before", shell_complete=study_names)
@click.argument("after", shell_complete=study_names)
@option(
    "--fail-if-slower",
    type=SHARE.read,
    metavar="PERCENT",
    help="Exit with 6 if the best of AFTER is proven to be worse than that of BEFORE by more.",
)
@option(
    "--remeasure",
    is_flag=True,
    help="If what is stored cannot tell, launch the best setting of both here in turn, 6 to 24"
    " times each.",
)
@option("--wait", is_flag=True, help="Wait while another study runs on this host.")
@storage_option()
@json_option()
@click.pass_context
def command(ctx: click.Context, /, before: str, after: str, **given: Any) -> int:
    """Compare them."""
    from tuner.cli import console
    from tuner.results.compare import compare, read
    from tuner.results.exporters.json import dumps, export

    limit, names = given["fail_if_slower"], (before, after)
    share = WORSE if limit is None else limit
    sides = [_loaded(name, given["storage"]) for name in names]
    texts = [side if isinstance(side, str) else export(side).text for side in sides]
    found = compare(*(read(name, text) for name, text in zip(names, texts, strict=True)))
    if given["remeasure"]:
        views = [_stored(name, side) for name, side in zip(names, sides, strict=True)]
        if found.best.is_open(share):
            found = _remeasured(found, views, share, ctx.meta[TYPED], given)
    if given["as_json"]:
        sys.stdout.write(dumps(found.json(share)))
    else:
        unit = f" ({found.before.unit})" if found.before.unit else ""
        titles = ["setting", f"before{unit}", f"after{unit}", "times as fast"]
        console.print_table(titles, found.table())
        for each in found.origins:
            console.out(each)
        for each in found.differences:
            console.out(f"differs: {each}")
        console.out(found.verdict(share), bold=True)
    return exits.WORSE if limit is not None and found.is_worse(share) else exits.OK


def _loaded(name: str, storage: str | None) -> StudyView | str:
    """The study, or the text of the file that holds its export."""
    from tuner.cli import stored

    try:
        if "/" in name or name.lower().endswith(".json") or Path(name).is_file():
            return Path(name).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        hint = "tune export -o main.json writes one"
        raise UsageError(f"{name}: {error.strerror}", hint) from error
    return stored.load(stored.open_store(storage), name)


def _stored(name: str, side: StudyView | str) -> StudyView:
    if isinstance(side, str):
        raise UsageError(
            f"--remeasure: {name} is a file, which cannot be launched", "name the study itself"
        )
    return side


def _remeasured(
    found: Comparison,
    views: list[StudyView],
    share: float,
    typed: tuple[str, ...],
    given: dict[str, Any],
) -> Comparison:
    """The comparison by launches in turn; they end as soon as their interval tells."""
    from tuner.cli import console, stored
    from tuner.study.in_turn import again, in_turn, require_different
    from tuner.study.interruption import StudyInterrupted

    specs, store = [], stored.open_store(given["storage"])
    for view in views:
        assert view.result.best is not None, "it was compared"
        specs.append(again(store, view.spec, view.result.best.setting, typed))
        was, now = view.spec.machine.hostname, specs[-1].machine.hostname
        if was != now:
            console.err(f"{view.spec.name} was measured on {was}: it is launched here, on {now}")
    require_different(specs)
    first, second = (spec.name for spec in specs)
    console.err(f"{found.best.missing(share)}: {first} and {second} are launched in turn")
    show, place = [*map(_line, specs)], {"storage": given["storage"], "wait": given["wait"]}
    try:
        for costs, error in in_turn(specs, on_event=show, **place):
            one, other = ([*map(specs[0].objective.figure, side)] for side in costs)
            found = found.with_best(one, other, error)
            if not found.best.is_open(share):
                break
    except KeyboardInterrupt as interruption:
        kept = f"the launches are kept as the studies {first} and {second}; --remeasure begins anew"
        console.err(f"tune: {kept}")
        number = getattr(interruption, "signal_number", SIGINT)
        raise StudyInterrupted(number, None) from interruption
    return found


def _line(spec: StudySpec) -> Callable[[Event], None]:
    """Writes a line for each launch of the study that ends."""
    from tuner.cli import console
    from tuner.cli.progress import Tally
    from tuner.study.events import LaunchEnded, Note

    tally, topics = Tally(time.monotonic, spec), set[str]()

    def show(event: Event) -> None:
        if isinstance(event, LaunchEnded):
            console.err(f"{spec.name}: {tally.ended_line(event)}")
        elif isinstance(event, Note) and (topic := event.text.partition(":")[0]) not in topics:
            topics.add(topic)  # each launch is a run of the study, with its notes
            console.err(f"{spec.name}: {event.text}")

    return show
