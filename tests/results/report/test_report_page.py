"""The page as a document: its structure, its policy, and that foreign text stays text."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
from collections import Counter
from html.parser import HTMLParser
from importlib import metadata
from itertools import pairwise
from typing import Any

import pytest

from tests import study_samples as samples
from tests.report_samples import everything, watched
from tests.study_samples import study
from tuner.launch.secrets import HIDDEN
from tuner.model import StudyState, Telemetry
from tuner.model.outcome import PACE
from tuner.results.exporters import shell
from tuner.results.report import report, words
from tuner.results.report.plots.runs import sides
from tuner.results.study_view import StudyView

SAMPLES = everything()

#: All that the page is made of.
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "a", "header", "main", "section", "div"),
    *("h1", "h2", "h3", "p", "dl", "dt", "dd", "ul", "li", "pre", "code", "figure", "figcaption"),
    *(
        "progress",
        "strong",
        "details",
        "summary",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "script",
        "noscript",
    ),
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

    def tags(self) -> Counter[str]:
        return Counter(tag for tag, _ in self.elements)

    def attributes(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module", params=SAMPLES)
def case(request: pytest.FixtureRequest) -> tuple[str, Document]:
    return request.param, Document(report(SAMPLES[request.param]))


def test_nothing_in_the_page_asks_anybody_for_anything(case: tuple[str, Document]) -> None:
    document = case[1]
    assert set(document.tags()) <= TAGS
    for tag, attributes in document.elements:
        assert not [name for name in attributes if name.startswith("on")], tag
        assert not {"src", "srcset", "style", "action"} & set(attributes), tag
    assert [found["href"] for found in document.attributes("a")] == ["#figures"]


def test_only_the_pages_own_scripts_may_run(case: tuple[str, Document]) -> None:
    document = case[1]
    data, library, own = document.texts["script"]
    kinds = [found.get("type") for found in document.attributes("script")]
    assert kinds == ["application/json", None, None]
    (policy,) = [
        str(found["content"])
        for found in document.attributes("meta")
        if found.get("http-equiv") == "Content-Security-Policy"
    ]
    hashes = [
        base64.b64encode(hashlib.sha256(t.encode()).digest()).decode() for t in (library, own)
    ]
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}' 'sha256-{hashes[1]}';"
        " style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    assert json.loads(data)["themes"].keys() == {"light", "dark"}
    assert not set(data) & set("<>&\u2028")


def test_headings_are_in_order_and_names_are_not_used_twice(case: tuple[str, Document]) -> None:
    document = case[1]
    levels = [int(tag[1]) for tag, _ in document.elements if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = [attributes["id"] for _, attributes in document.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert document.attributes("html") == [{"lang": "en"}]
    assert document.texts["title"][0]


def test_every_figure_has_its_text_alternative(case: tuple[str, Document]) -> None:
    document = case[1]
    drawn = [a for a in document.attributes("div") if "data-figure" in a]
    drawings = json.loads(document.texts["script"][0])["drawings"]
    assert {each["data-figure"] for each in drawn} == set(drawings)
    for each in drawn:
        assert each["role"] == "img"
        assert len(str(each["aria-label"])) > 20
    assert len(document.texts.get("figcaption", [])) == len(document.attributes("figure"))


def test_hostile_text_is_shown_and_is_nothing_else() -> None:
    text = report(SAMPLES["hostile"])
    document = Document(text)
    assert "<script>alert(1)</script> <img src=" in document.texts["p"][1]
    assert "{{ 7*7 }} {% raw %} <!--" in document.texts["h1"][0]
    shown = text.replace(document.texts["script"][1], "")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e\ud800-\udfff]", shown)
    for drawing in json.loads(document.texts["script"][0])["drawings"].values():
        for each in strings(drawing):
            assert not re.search(r"<(?!br>|/?b>)", each), each
            assert "$" not in each
            assert not re.search(r"<b>x", each)


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [each for item in value.values() for each in strings(item)]
    if isinstance(value, list):
        return [each for item in value for each in strings(item)]
    return [value] if isinstance(value, str) else []


def test_the_page_says_what_tune_says() -> None:
    data = watched(samples.faster())
    typed = ("--mpi-procs", "2", "--name", "a b")
    spec = dataclasses.replace(data.spec, typed=typed, folder="/x y")
    document = Document(report(dataclasses.replace(data, spec=spec)))
    interval = "95\xa0% interval 2.24 to 2.42, 6\xa0pairs in turn"
    verdict = f"2.33 times faster than your defaults ({interval})."
    assert verdict in document.texts["p"]
    assert document.texts["title"] == [f"mnist: {verdict[:-1]}".replace("\xa0", " ")]
    cells = " ".join(document.texts["dd"])
    assert "break-even after 24\xa0runs" in cells
    assert "Some CPU, 4 cores" in cells
    commands = document.texts["code"]
    assert "tune export mnist --storage studies/tune.db --format sh -o job.sh" in commands
    assert "cd '/x y' && tune --mpi-procs 2 --name 'a b'" in commands
    assert "mpirun -n 2 python train.py" in commands


@pytest.mark.parametrize(
    ("state", "said"),
    [(StudyState.RUNNING, "still running"), (StudyState.INTERRUPTED, "was interrupted")],
)
def test_a_study_that_has_not_ended_says_so(state: StudyState, said: str) -> None:
    assert said in report(samples.launched(samples.searched(), state=state))


def test_the_page_shows_the_script_two_bars_the_version_and_the_time() -> None:
    data = samples.faster()
    document = Document(report(data))
    assert shell.script(data).text in document.texts["code"]
    shares = [float(str(bar["value"])) for bar in document.attributes("progress")]
    assert shares == [1.0, pytest.approx(3.59 / 8.33, rel=0.01)]
    assert f"Report of tune {metadata.version('tuner')}, measured 20" in document.texts["p"][0]


def test_of_defaults_whose_launches_ended_with_their_pace_known_that_is_shown() -> None:
    ended = dataclasses.replace(samples.stopped(9.0, 30.0), rule=PACE)
    confirming = [
        (purpose, chosen, ended if chosen.is_baseline else came)
        for purpose, chosen, came in samples.in_turn(8.33, 3.6, 3)
    ]
    data = samples.launched([*samples.searched(ended), *confirming])
    assert [bar.text for bar in words.bars(data)] == ["~30.0 s", "3.60 s"]
    rows = dict(words.summary(data))
    assert rows["Your defaults"] == "~30.0 s (range 30.0 to 30.0 s), 4 runs, projected by the pace"


def test_without_a_gain_there_is_a_best_candidate_and_no_best() -> None:
    assert [side.name for side in sides(samples.no_gain())][-1] == "best candidate"


def test_the_page_of_a_study_without_a_launch_has_no_empty_section() -> None:
    document = Document(report(SAMPLES["nothing"]))
    headings = ["Summary", "What took effect", "Machine and MPI"]
    assert document.texts["h2"] == headings


def test_a_hidden_secret_stays_hidden_and_is_explained() -> None:
    data = study()
    typed = ("--", "train", "--password", HIDDEN, "{out}")
    spec = dataclasses.replace(data.spec, typed=typed)
    text = report(dataclasses.replace(data, spec=spec))
    assert "train --password &#39;***&#39;" in text
    assert "stands for a secret" in text
    assert "stands for a secret" not in report(data)


def test_what_held_best_and_defaults_back_is_said_as_explain_says_it() -> None:
    data = watched(samples.faster())
    document = Document(report(data))
    assert "What held it back" in document.texts["h2"]
    found = words.explained(data)
    assert [run.name for run in found] == ["your defaults", "best"]
    said = " ".join(document.texts["p"]).replace("\xa0", " ").lower()
    for run in found:
        assert f"{run.name.capitalize()} (launch {run.record.number})" in document.texts["h3"]
        assert f"{run.sentence}.".lower() in said
    assert "What held it back" not in report(samples.faster())


def test_where_nothing_is_known_no_knob_is_spoken_of() -> None:
    data = samples.faster()
    records = tuple(
        dataclasses.replace(
            record, outcome=dataclasses.replace(record.outcome, telemetry=Telemetry())
        )
        for record in data.records
    )
    found = words.explained(dataclasses.replace(data, records=records))
    assert {run.sentence for run in found} == {"what held it back cannot be told"}
    assert not any(run.lines for run in found)


def test_a_study_without_a_result_has_nothing_to_use() -> None:
    found: StudyView = SAMPLES["only_failures"]
    document = Document(report(found))
    assert "Use the result" not in document.texts["h2"]
    assert "What failed" in document.texts["h2"]
