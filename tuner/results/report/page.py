"""The report: one HTML file with all it needs, which asks nobody for anything.

Whatever a study holds is text: Jinja2 escapes it, :func:`plain` takes out what is not printable,
figures have it through :func:`tuner.results.report.plots.style.inert`. The page's own policy
allows the scripts in it, by their hashes, and styles, which Plotly sets as attributes; nothing
else.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from tuner.model import wording
from tuner.results.exporters.json import plain as json_plain
from tuner.results.report import facts, words
from tuner.results.report.plots import FAMILIES, Figure, style
from tuner.results.study_view import StudyView

#: A cell with a number and its unit, maybe with a sign before it: no line ends in it.
_FIGURE = re.compile(r"\W{0,2}\d.{0,20}")

_TEMPLATES = Path(__file__).parent / "templates"


def page(data: StudyView, weights: Mapping[str, float], home: str = "") -> str:
    """The whole page of a study; the same study gives the same text.

    Args:
        data: The study.
        weights: The importance of its knobs, as far as it is known.
        home: The address of the other studies; empty: there is none.
    """
    built = [(family, family.build(data, weights)) for family in FAMILIES]
    families = [
        (family, figures) for family, figures in built if any(figure.drawing for figure in figures)
    ]
    return render(
        "page.html.jinja",
        [figure for _, figures in families for figure in figures],
        data=data,
        home=home,
        bars=words.bars(data),
        script_text=words.script(data),
        words=words,
        failure_lines=facts.failure_lines(data),
        explained=words.explained(data),
        families=families,
    )


def render(template: str, figures: Sequence[Figure], **more: Any) -> str:
    """A page with these figures, from a template of this package that is given ``more``."""
    from plotly.offline import get_plotlyjs

    drawings = {figure.key: figure.drawing for figure in figures if figure.drawing is not None}
    library, script, css = (
        get_plotlyjs(),
        *((_TEMPLATES / name).read_text(encoding="utf-8") for name in ("page.js", "page.css")),
    )
    return str(
        _environment()
        .get_template(template)
        .render(
            figures=figures,
            version=metadata.version("tuner"),
            library=_trusted(library),
            script=_trusted(script),
            style=_trusted(css),
            best=style.BEST,
            baseline=style.BASELINE,
            other=style.OTHER,
            drawings=_trusted(_json({"themes": style.THEMES, "drawings": drawings})),
            scripts=f"{_hash(library)} {_hash(script)}",
            **more,
        )
    )


@cache
def _environment() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        autoescape=True,
        finalize=plain,
        loader=FileSystemLoader(_TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"unparted": wording.unparted, "capital": wording.capital}
    environment.tests["figure"] = _FIGURE.fullmatch
    return environment


def plain(value: Any) -> Any:
    """Text without what is not printable: controls, and what turns the direction of writing."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return "".join(
        letter if letter.isprintable() or letter in "\xa0\n" else "\ufffd" for letter in value
    )


def _trusted(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)


def _json(document: Any) -> str:
    """JSON that ends no script element and is no comment in one."""
    text = json.dumps(json_plain(document), separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


@cache
def _hash(text: str) -> str:
    """What a policy knows a script by (w3.org/TR/CSP3, hash-source)."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
