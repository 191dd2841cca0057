"""How much each knob matters, as Optuna estimates it from the settings."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.model import JsonDict
from tuner.results.report.plots import style
from tuner.results.report.plots.figure import Figure, Table

_TITLE = "How much each knob matters"


def build(weights: Mapping[str, float]) -> list[Figure]:
    """One figure; words in its place where there are too few settings to tell."""
    if not weights:
        said = "Too few settings have a time, or no knob was varied: nothing is estimated."
        return [Figure("importance", _TITLE, said)]
    ranked = sorted(weights.items(), key=lambda item: -item[1])
    name, share = ranked[0]
    summary = (
        f"{name} matters most: {100 * share:.0f} % of what tells fast settings from slow ones,"
        " estimated by PED-ANOVA."
    )
    table = Table.of(("knob", "share"), [(knob, f"{part:.1%}") for knob, part in ranked])
    return [Figure("importance", _TITLE, summary, _drawing(ranked), table)]


def _drawing(ranked: list[tuple[str, float]]) -> JsonDict:
    bars = {
        "type": "bar",
        "orientation": "h",
        "x": [share for _, share in ranked],
        "y": list(range(len(ranked))),
        "text": [f"{share:.0%}" for _, share in ranked],
        "textposition": "auto",
        "marker": {"color": style.BEST},
        "hoverinfo": "text",
        "hovertext": [f"{style.inert(name)}: {share:.1%}" for name, share in ranked],
    }
    layout = style.layout(
        90 + 30 * len(ranked),
        xaxis={"tickformat": ".0%", "range": [0, 1], "title": {"text": "share"}},
        yaxis={
            "tickvals": list(range(len(ranked))),
            "ticktext": [style.inert(name, 24) for name, _ in ranked],
            "range": [len(ranked) - 0.5, -0.5],
            "showgrid": False,
        },
        showlegend=False,
    )
    return {"data": [bars], "layout": layout}
