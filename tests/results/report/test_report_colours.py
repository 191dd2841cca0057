"""The colours of the report: told apart with any colour vision, and read on both pages."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from math import atan2, cos, degrees, exp, hypot, radians, sin, sqrt
from pathlib import Path

import pytest

from tests.report_samples import everything, large, watched
from tests.results.test_scale import on_hosts, scaling
from tests.study_samples import measured_live
from tuner.model import JsonDict
from tuner.results.report import page, weights
from tuner.results.report.plots import FAMILIES, style

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

#: CIEDE2000: 1 is just seen side by side; dots and lines lie apart from each other.
APART = 20.0

#: WCAG 2.1: of text (1.4.3), and of graphics (1.4.11).
TEXT, GRAPHICS = 4.5, 3.0

Lab = tuple[float, float, float]


def linear(colour: str) -> list[float]:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    return [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]


def cielab(colour: str, vision: str) -> Lab:
    """The colour in CIELAB, as somebody with this vision sees it."""
    own = linear(colour)
    red, green, blue = (
        min(1.0, max(0.0, sum(a * b for a, b in zip(row, own, strict=True))))
        for row in VISIONS[vision]
    )
    whites = (0.95047, 1.0, 1.08883)
    x, y, z = (
        t ** (1 / 3) if t > (6 / 29) ** 3 else t / (3 * (6 / 29) ** 2) + 4 / 29
        for t in (
            (0.4124564 * red + 0.3575761 * green + 0.1804375 * blue) / whites[0],
            (0.2126729 * red + 0.7151522 * green + 0.0721750 * blue) / whites[1],
            (0.0193339 * red + 0.1191920 * green + 0.9503041 * blue) / whites[2],
        )
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def difference(one: Lab, other: Lab) -> float:
    """CIEDE2000 (Sharma, Wu and Dalal, 2005)."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean = (hypot(a1, b1) + hypot(a2, b2)) / 2
    grey = 1.5 - 0.5 * sqrt(mean**7 / (mean**7 + 25**7))
    c1, c2 = hypot(a1 * grey, b1), hypot(a2 * grey, b2)
    h1, h2 = (degrees(atan2(b, a * grey)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = (h2 - h1 + 180) % 360 - 180 if c1 * c2 else 0.0
    light, c, h = (l1 + l2) / 2, (c1 + c2) / 2, h1 + turn / 2 if c1 * c2 else h1 + h2
    weight = (
        1
        - 0.17 * cos(radians(h - 30))
        + 0.24 * cos(radians(2 * h))
        + 0.32 * cos(radians(3 * h + 6))
        - 0.20 * cos(radians(4 * h - 63))
    )
    by_light = (l2 - l1) / (1 + 0.015 * (light - 50) ** 2 / sqrt(20 + (light - 50) ** 2))
    by_chroma = (c2 - c1) / (1 + 0.045 * c)
    by_hue = 2 * sqrt(c1 * c2) * sin(radians(turn) / 2) / (1 + 0.015 * c * weight)
    blue = radians(60 * exp(-((((h % 360) - 275) / 25) ** 2)))
    twist = -2 * sqrt(c**7 / (c**7 + 25**7)) * sin(blue)
    return sqrt(by_light**2 + by_chroma**2 + by_hue**2 + twist * by_chroma * by_hue)


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425),
        ((50, 2.5, 0), (73, 25, -18), 27.1492),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
    ],
)
def test_the_difference_is_that_of_the_published_pairs(one: Lab, other: Lab, apart: float) -> None:
    assert difference(one, other) == pytest.approx(apart, abs=1e-4)


def contrast(one: str, other: str) -> float:
    rows = (linear(one), linear(other))
    dark, light = sorted(0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in rows)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("mode", style.THEMES)
def test_any_two_colours_of_a_figure_are_told_apart(mode: str, vision: str) -> None:
    ink = style.THEMES[mode]["layout"]["colorway"][0]  # of what has no colour of its own
    for one, other in itertools.combinations((*style.COLOURS, ink), 2):
        assert difference(cielab(one, vision), cielab(other, vision)) >= APART, (one, other)


@pytest.mark.parametrize("vision", VISIONS)
def test_the_scale_of_heat_maps_grows_lighter_all_along(vision: str) -> None:
    lightness = [cielab(colour, vision)[0] for colour in style.SCALE]
    assert all(after - before > 5 for before, after in itertools.pairwise(lightness))
    assert difference(cielab(style.SCALE[0], vision), cielab(style.SCALE[-1], vision)) >= APART


def test_colours_have_a_contrast_on_both_pages() -> None:
    for theme in style.THEMES.values():
        paper, ink = theme["layout"]["paper_bgcolor"], theme["layout"]["font"]["color"]
        assert contrast(paper, ink) >= TEXT
        for colour in style.COLOURS:
            assert contrast(paper, colour) >= GRAPHICS, (paper, colour)
    assert contrast(style.BEST, "#ffffff") >= TEXT  # Plotly's choice in a bar
    assert min(contrast(style.ON_SCALE, colour) for colour in style.SCALE) >= TEXT


def test_the_text_of_the_page_has_a_contrast_by_day_and_by_night() -> None:
    css = (Path(page.__file__).parent / "templates" / "page.css").read_text()
    blocks = re.findall(r":root \{(.*?)\}", css, flags=re.DOTALL)
    assert len(blocks) == len(("day", "night", "paper"))
    for block in blocks:
        colours = dict(re.findall(r"--(\w+): (#\w{6});", block))
        for text, ground in itertools.product(("ink", "soft", "accent", "warn"), ("page", "box")):
            assert contrast(colours[text], colours[ground]) >= TEXT, (text, ground)


def drawings() -> Iterator[JsonDict]:
    """All that is drawn of studies of each kind."""
    more = {"large": watched(large(count=120)), "live": measured_live()}
    for data in (everything() | more).values():
        for family in FAMILIES:
            yield from (f.drawing for f in family.build(data, weights(data)) if f.drawing)
    scaled = scaling({on_hosts(1): 16.2, on_hosts(2): 10.0}).figure().drawing
    assert scaled is not None
    yield scaled


def test_nothing_in_a_legend_is_told_by_its_colour_alone() -> None:
    several = 0
    for drawing in drawings():
        looks = [
            (
                trace["mode"],
                trace.get("marker", {}).get("symbol", "circle"),
                trace.get("line", {}).get("dash", "solid"),
                trace.get("fillpattern", {}).get("shape", ""),
            )
            for trace in drawing["data"]
            if "name" in trace and trace.get("showlegend", True)
        ]
        assert len(set(looks)) == len(looks), looks
        several += len(looks) > 1
    assert several > 10
