"""A study in a notebook's cell: its verdict, figures and launches; foreign text is inert."""

from __future__ import annotations

from base64 import b64decode
from xml.etree import ElementTree

import pytest

from tests import study_samples as samples
from tuner.model import Failed, FailureKind
from tuner.results.report import cell, words
from tuner.results.report.plots import runs
from tuner.results.study_view import StudyView

SVG = "{http://www.w3.org/2000/svg}"

VIEWS = {
    view.__name__: view
    for view in (
        samples.study,
        samples.capped_study,
        samples.measured_live,
        samples.faster,
        samples.at_least,
        samples.no_gain,
        samples.failing,
    )
}


def drawing(html: str) -> ElementTree.Element:
    """The plot that is in the cell."""
    (image,) = ElementTree.fromstring(html).iter("img")
    assert image.get("alt")
    head, _, data = image.get("src", "").partition(",")
    assert head == "data:image/svg+xml;base64"
    return ElementTree.fromstring(b64decode(data))


@pytest.mark.parametrize("name", VIEWS)
def test_a_cell_has_verdict_rows_and_every_launch_and_is_well_formed(name: str) -> None:
    data: StudyView = VIEWS[name]()
    root = ElementTree.fromstring(cell.html(data))
    assert words.verdict(data) in "".join(root.itertext())
    assert [each.text for each in root.iter("th")] == [row for row, _ in words.summary(data)]
    known = [run for run in runs.counted(data) if run.going]
    marks = list(drawing(cell.html(data)).iter(f"{SVG}rect"))
    assert len(marks) == len(known)
    assert sum(mark.get("rx") == "0" for mark in marks) == sum(run.is_default for run in known)
    for mark in marks:
        assert 0 < float(mark.get("x", 0)) < cell.WIDTH
        assert 0 < float(mark.get("y", 0)) < cell.FLOOR


def test_a_study_of_which_all_failed_or_nothing_was_launched_is_shown() -> None:
    failed = samples.study({samples.FAST: None, samples.SLOW: None})
    assert "All was tried" in cell.html(failed)
    assert "All was tried" in cell.html(samples.study({}))


def test_what_a_program_wrote_is_text() -> None:
    ending = Failed(FailureKind.CRASHED, samples.HOSTILE)
    hostile = samples.searched(defaults=ending)
    html = cell.html(samples.launched(hostile))
    tags = {each.tag for each in ElementTree.fromstring(html).iter()}
    assert tags == {"div", "p", "strong", "table", "tr", "th", "td", "img"}
    assert {each.tag for each in drawing(html).iter()} <= {
        SVG + tag for tag in ("svg", "path", "rect", "text")
    }
    assert not {"\x1b", "\u202e"} & set(html)
