"""Our note on Optuna's page of a study: what ``tune`` says at its end, as Markdown.

It has text that other programs wrote (a failure, values, the host name): none of that may become
a link, a picture or a tag.
"""

from __future__ import annotations

from urllib.parse import quote

from tuner.model import wording
from tuner.results import words
from tuner.results.exporters.tables import markdown_text
from tuner.results.study_view import StudyView


def annotate(url: str, data: StudyView) -> None:
    """Save the note with the study in the database at ``url``.

    Raises:
        TunerError: The database cannot be written to.
    """
    from optuna_dashboard import get_note, save_note

    from tuner.store import Store

    text = note(data)
    with Store.open(url, create=False) as store, store.translated():
        study = store.search(data.spec.name)
        if get_note(study) != text:  # saving makes a new version each time
            save_note(study, text)


def note(data: StudyView) -> str:
    """The result as Markdown: the verdict and the summary of the report, and commands to use it."""
    commands = [
        wording.one_line(f"{line} # {what}", None)
        for line, what in words.use(data, data.result.storage)
    ]
    rows = [*words.summary(data), *words.machine(data)]
    lines = [
        f"## {markdown_text(data.spec.name)}",
        "",
        f"**{markdown_text(words.verdict(data))}**",
        "",
        *(f"- {heading}: {markdown_text(text)}" for heading, text in rows),
        *(f"- {markdown_text(wording.capped(cap))}" for cap in data.result.caps),
        "",
        *("```", *commands, "```", ""),
        f"The figures are in [its report](/report/{quote(data.spec.name, errors='replace')}).",
    ]
    return "\n".join(lines)
