"""``tune show``: one stored study in full."""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from tuner.cli.base import TuneCommand
from tuner.cli.click_options import shared, study_argument


@click.command(
    "show",
    cls=TuneCommand,
    help="Show a study: the result, every setting, what each knob contributes, and the failures."
    " The latest study by default.",
    examples=(
        ("tune show", "the latest study"),
        ("tune show NAME --json | jq .result.best", "for programs"),
    ),
)
@study_argument()
@shared("storage", "json")
def command(study: str | None, storage: str | None, as_json: bool) -> None:
    """Show one study."""
    from tuner.cli import printed, stored
    from tuner.results import words
    from tuner.results.exporters.json import dumps, launches_json, measurement_json, result_json

    data = stored.load(stored.open_store(storage), study)
    if as_json:
        document = {
            "schema": "tuner.show/2",
            "result": result_json(data.result, data.spec),
            "measurements": [
                measurement_json(measurement, data.spec) | {"ratio": data.speed_up(measurement)}
                for measurement in data.measurements
            ],
            "contributions": [
                asdict(contribution) | {"text": text}
                for contribution, (_, text) in zip(
                    data.contributions, words.contribution_rows(data), strict=True
                )
            ],
            "effects": data.effects,
            "left_out": dict(data.left_out),
            "core_budget": words.budget_lines(data),
            "inherited": words.inherited(data),
            **launches_json(data),
        }
        sys.stdout.write(dumps(document))
        return
    printed.print_result(data, summary=False)
    printed.print_settings(data)
    printed.print_failures(data)
