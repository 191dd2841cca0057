"""The colours of the report: told apart with any colour vision, and read on both pages."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.study_samples import everything, measured_live
from tuner.results.report import page, plots, style

#: What a kind of colour vision that lacks a cone makes of linear red, green and blue
#: (Machado, Oliveira and Fernandes, A Physiologically-based Model for Simulation of Color Vision
#: Deficiency, IEEE TVCG 15(6), 2009: severity 1.0).
VISIONS = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}

#: From linear red, green and blue to OKLab (Ottosson, A perceptual color space, 2020).
TO_LMS = (
    (0.4122214708, 0.5363325363, 0.0514459929),
    (0.2119034982, 0.6806995451, 0.1073969566),
    (0.0883024619, 0.2817188376, 0.6299787005),
)
TO_LAB = (
    (0.2104542553, 0.7936177850, -0.0040720468),
    (1.9779984951, -2.4285922050, 0.4505937099),
    (0.0259040371, 0.7827717662, -0.8086757660),
)

#: In OKLab, where 0.02 is just seen.
APART = 0.12

#: WCAG 2.1: of text (1.4.3), and of graphics (1.4.11).
TEXT, GRAPHICS = 4.5, 3.0


def linear(colour: str) -> list[float]:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    return [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]


def times(matrix: Sequence[Sequence[float]], vector: Sequence[float]) -> list[float]:
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def oklab(colour: str, vision: str) -> list[float]:
    """The colour as somebody with this vision sees it."""
    seen = [min(1.0, max(0.0, part)) for part in times(VISIONS[vision], linear(colour))]
    return times(TO_LAB, [part ** (1 / 3) for part in times(TO_LMS, seen)])


def contrast(one: str, other: str) -> float:
    rows = (linear(one), linear(other))
    dark, light = sorted(0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in rows)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("mode", style.THEMES)
def test_any_two_colours_of_a_figure_are_told_apart(mode: str, vision: str) -> None:
    ink = style.THEMES[mode]["layout"]["colorway"][0]  # of what has no colour of its own
    for one, other in itertools.combinations((*style.COLOURS, ink), 2):
        assert math.dist(oklab(one, vision), oklab(other, vision)) >= APART, (one, other)


def test_colours_and_text_have_a_contrast_by_day_and_by_night() -> None:
    for theme in style.THEMES.values():
        paper, ink = theme["layout"]["paper_bgcolor"], theme["layout"]["font"]["color"]
        assert contrast(paper, ink) >= TEXT
        for colour in style.COLOURS:
            assert contrast(paper, colour) >= GRAPHICS, (paper, colour)
    css = (Path(page.__file__).parent / "templates" / "page.css").read_text()
    blocks = re.findall(r":root \{(.*?)\}", css, flags=re.DOTALL)
    assert len(blocks) == len(("day", "night", "paper"))
    for block in blocks:
        colours = dict(re.findall(r"--(\w+): (#\w{6});", block))
        for text, ground in itertools.product(("ink", "soft", "accent", "warn"), ("page", "box")):
            assert contrast(colours[text], colours[ground]) >= TEXT, (text, ground)


def test_nothing_in_a_legend_is_told_by_its_colour_alone() -> None:
    studies = everything() | {"live": measured_live()}
    drawings = [figure.drawing for data in studies.values() for figure in plots.build(data)]
    for drawing in drawings:
        looks = [
            (
                trace["mode"],
                trace.get("marker", {}).get("symbol", "circle"),
                trace.get("line", {}).get("dash", "solid"),
            )
            for trace in drawing["data"]
            if "name" in trace and trace.get("showlegend", drawing["layout"]["showlegend"])
        ]
        assert len(set(looks)) == len(looks), looks
