"""The page as a document: its structure, its policy, and that foreign text stays text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from tests import study_samples as samples
from tests.study_samples import everything, watched
from tuner.launch.secrets import HIDDEN
from tuner.model import StudyState
from tuner.model.outcome import PACE
from tuner.results import words
from tuner.results.exporters import shell
from tuner.results.report.page import report

SAMPLES = everything()

#: All that the page is made of.
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "a", "header", "main", "section", "div"),
    *("h1", "h2", "h3", "p", "dl", "dt", "dd", "ul", "li", "pre", "code", "figure", "figcaption"),
    *("progress", "strong", "details", "summary", "table", "thead", "tbody", "tr", "th", "td"),
    *("script", "noscript"),
}


class Document(HTMLParser):
    """The elements of a page with their attributes, and the text of each kind."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in {"meta", "link", "br", "img"}:
            self._open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, "an element is not closed"

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[self._open[-1]][-1] += data

    def attributes(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module", params=("faster", "hostile", "nothing"))
def document(request: pytest.FixtureRequest) -> Document:
    return Document(report(SAMPLES[request.param]))


def test_nothing_in_the_page_asks_anybody_for_anything(document: Document) -> None:
    assert {tag for tag, _ in document.elements} <= TAGS
    for tag, attributes in document.elements:
        assert not [name for name in attributes if name.startswith("on")], tag
        assert not {"src", "srcset", "style", "action"} & set(attributes), tag
    assert {link["href"] for link in document.attributes("a")} <= {"#figures"}


def test_only_the_pages_own_scripts_may_run(document: Document) -> None:
    data, library, own = document.texts["script"]
    kinds = [script.get("type") for script in document.attributes("script")]
    assert kinds == ["application/json", None, None]
    (policy,) = [
        str(meta["content"])
        for meta in document.attributes("meta")
        if meta.get("http-equiv") == "Content-Security-Policy"
    ]
    hashes = [
        base64.b64encode(hashlib.sha256(t.encode()).digest()).decode() for t in (library, own)
    ]
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}' 'sha256-{hashes[1]}';"
        " style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    assert not set(data) & set("<>&\u2028")


def test_hostile_text_is_shown_and_is_nothing_else() -> None:
    text = report(SAMPLES["hostile"])
    document = Document(text)
    assert any("<script>alert(1)</script> <img src=" in p for p in document.texts["p"])
    assert "{{ 7*7 }} {% raw %} <!--" in document.texts["h1"][0]
    shown = text.replace(document.texts["script"][1], "")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e\ud800-\udfff]", shown)
    for text in strings(json.loads(document.texts["script"][0])["drawings"]):
        assert not re.search(r"<(?!br>)", text), text
        assert "$" not in text


def strings(value: Any) -> list[str]:
    if isinstance(value, dict | list):
        items = value.values() if isinstance(value, dict) else value
        return [text for item in items for text in strings(item)]
    return [value] if isinstance(value, str) else []


def test_an_option_in_the_verdict_stands_on_one_line() -> None:
    whole = '<span class="whole">--confirm more</span>'
    assert f"the same command with {whole}" in report(samples.inconclusive())


def test_the_page_has_what_tune_says_the_script_and_the_commands() -> None:
    data = watched(samples.faster())
    typed = ("--mpi-procs", "2", "--name", "a b", "--password", HIDDEN)
    data = replace(data, spec=replace(data.spec, typed=typed, folder="/x y"))
    document = Document(report(data))
    assert document.texts["title"] == [f"{data.spec.name}: {words.verdict(data)}"]
    cells = [cell.replace("\xa0", " ") for cell in document.texts["dd"]]
    assert {text for _, text in (*words.summary(data), *words.machine(data))} <= {*cells}
    commands = document.texts["code"]
    assert shell.script(data).text in commands
    assert {line for line, _ in words.use(data, data.result.storage)} < {*commands}
    assert "cd '/x y' && tune --mpi-procs 2 --name 'a b' --password '***'" in commands
    assert "mpirun -n 2 python train.py" in commands
    assert any("stands for a secret" in text for text in document.texts["p"])
    shares = [float(str(bar["value"])) for bar in document.attributes("progress")]
    assert shares == [1.0, pytest.approx(3.59 / 8.33, rel=0.01)]
    for run in words.explained(data):  # as `tune explain` says it
        assert f"{run.name.capitalize()} (launch {run.record.number})" in document.texts["h3"]


def test_of_defaults_whose_launches_ended_with_their_pace_known_that_is_shown() -> None:
    ended = replace(samples.stopped(9.0, 30.0), rule=PACE)
    confirming = [
        (purpose, chosen, ended if chosen.is_baseline else came)
        for purpose, chosen, came in samples.in_turn(8.33, 3.6, 3)
    ]
    data = samples.launched([*samples.searched(ended), *confirming])
    assert [text for _, _, text in words.bars(data)] == ["~30.0 s", "3.60 s"]
    text = dict(words.summary(data))["Your defaults"]
    assert text == "~30.0 s (4 runs, 30.0 s to 30.0 s), projected by the pace"


def test_a_study_has_no_empty_section_and_a_page_without_a_secret_speaks_of_none() -> None:
    headings = Document(report(SAMPLES["nothing"])).texts["h2"]
    assert headings == ["Summary", "Use the result", "What took effect", "Machine and MPI"]
    data = SAMPLES["only_failures"]
    failed = report(replace(data, result=replace(data.result, state=StudyState.RUNNING)))
    assert "What failed" in Document(failed).texts["h2"] and "still running" in failed
    assert "stands for a secret" not in failed
