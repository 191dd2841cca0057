"""The report: one HTML file with all it needs, which asks nobody for anything.

Whatever a study holds is text: Jinja2 escapes it, :func:`plain` takes out what is not printable,
figures have it through :func:`tuner.results.report.style.inert`. The page's own policy allows the
scripts in it, by their hashes, and styles, which Plotly sets as attributes; nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from tuner.launch.secrets import HIDDEN
from tuner.model import wording
from tuner.model.errors import UsageError
from tuner.results import words
from tuner.results.exporters import shell
from tuner.results.exporters.json import plain as json_plain
from tuner.results.report import plots, style
from tuner.results.study_view import StudyView, settings_table

#: A cell with a number and its unit, maybe with a sign before it: it is never broken into lines.
_FIGURE = re.compile(r"\W{0,2}\d.{0,20}")

_TEMPLATES = Path(__file__).parent / "templates"


def report(data: StudyView, home: str = "") -> str:
    """Return the page of a study: one HTML file that works without a network.

    ``home`` is the address of the other studies, if the page is a part of the dashboard. The same
    study gives the same text.
    """
    try:
        job_script = shell.script(data).text
    except UsageError:  # nothing to hand over, or a launcher that is gone
        job_script = ""
    figures = plots.build(data)
    drawings = {"themes": style.THEMES, "drawings": {f.key: f.drawing for f in figures}}
    # JSON that ends no script element and is no comment in one.
    text = json.dumps(json_plain(drawings), separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    script, css = ((_TEMPLATES / name).read_text("utf-8") for name in ("page.js", "page.css"))
    library = plotly_js()
    page = _environment().get_template("page.html.jinja")
    return str(
        page.render(
            data=data,
            home=home,
            words=words,
            shell_script=job_script,
            explained=words.explained(data),
            settings=settings_table(data),
            hidden=HIDDEN,
            figures=figures,
            version=metadata.version("runtime-tuner"),
            library=library,
            script=script,
            css=css,
            style=style,
            drawings=text,
            scripts=f"{_hash(library)} {_hash(script)}",
        )
    )


@cache
def plotly_js() -> str:
    """Return the part of Plotly's JavaScript that draws our figures.

    The file is that of the package plotly.js-cartesian-dist-min of npm.
    """
    return (Path(__file__).parent / "plotly" / "plotly-cartesian.min.js").read_text("utf-8")


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
    environment.filters["whole_options"] = _with_whole_options
    environment.tests["figure"] = _FIGURE.fullmatch
    return environment


def _with_whole_options(text: str) -> Any:
    """Return the text as HTML that does not break between an option and its value."""
    from markupsafe import Markup, escape

    html = str(escape(plain(text)))
    return Markup(re.sub(r"--[\w-]+ \w+", r'<span class="whole">\g<0></span>', html))


def plain(value: Any) -> Any:
    """Replace what is not printable: controls, and what turns the direction of writing."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return "".join(
        letter if letter.isprintable() or letter in "\xa0\n" else "\ufffd" for letter in value
    )


@cache
def _hash(text: str) -> str:
    """Return the hash by which the page's policy allows a script (w3.org/TR/CSP3, hash-source)."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
