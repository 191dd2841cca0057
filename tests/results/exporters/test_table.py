"""Tables of every setting."""

from __future__ import annotations

import csv
import dataclasses
import io

from tests import study_samples as samples
from tests.study_samples import SPEC, setting, study
from tuner.model import BASELINE, Choice, Flag, Knob, Setting
from tuner.results.exporters import table


def test_csv_has_a_row_for_each_setting_fastest_first() -> None:
    rows = list(csv.DictReader(io.StringIO(table.csv(study()).text)))
    assert [row["elapsed_s"] for row in rows] == ["3.6", "3.9", "7.1", "8.316", ""]
    assert rows[0]["ratio"] == "2.3100"
    assert rows[3]["kind"] == "baseline"
    assert rows[4]["failure"].startswith("crashed")


def test_csv_has_the_bound_of_a_stopped_setting_and_no_time() -> None:
    rows = list(csv.DictReader(io.StringIO(table.csv(samples.at_least()).text)))
    assert [row["bound_s"] for row in rows] == ["", "", "4.1", "13.5", ""]
    assert [row["elapsed_s"] for row in rows[2:]] == ["", "", ""]
    assert (rows[3]["kind"], rows[3]["runs"], rows[3]["launches"]) == ("baseline", "0", "4")
    assert {row["ratio"] for row in rows} == {""}, "stopped defaults have no speed"


def test_csv_carries_any_text() -> None:
    value = 'a,"b"\nc'
    spec = dataclasses.replace(SPEC, knobs=(Knob("v", Choice((value,)), Flag("-v")),))
    text = table.csv(study({BASELINE: 3.0, setting(v=value): 1.0}, spec)).text
    assert next(iter(csv.DictReader(io.StringIO(text, newline=""))))["v"] == value


def test_markdown_says_what_it_is_and_keeps_its_columns() -> None:
    spec = dataclasses.replace(SPEC, knobs=(Knob("v", Choice(("a|b\n",)), Flag("-v")),))
    text = table.markdown(study({BASELINE: 3.0, setting(v="a|b\n"): 1.0}, spec)).text
    assert "3.00 times faster" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {6}
    assert "baseline" in rows[-1]


def test_markdown_says_what_is_known_of_a_stopped_setting() -> None:
    text = table.markdown(samples.at_least()).text
    assert "- measured: at least 2.19 times faster than your defaults (95 % sure" in text
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("|")]
    assert (rows[5][0], rows[5][-1]) == ("| \\~30.0 s", "baseline |")


def test_markdown_names_what_it_compares_with() -> None:
    """Defaults that crashed have no speed, and nothing is compared with them."""
    assert "| against the defaults |" in table.markdown(study()).text
    failed = table.markdown(samples.failing()).text
    assert "| against the first that worked |" in failed
    assert "against the defaults" not in failed
    assert failed.splitlines()[-1].split("|")[2:4] == ["  ", " 0 "]


def test_csv_holds_no_formula() -> None:
    values = ("=1+1", "+1", "-1", "@SUM(A1)", "\n=1", "plain", -3)
    spec = dataclasses.replace(SPEC, knobs=(Knob("v", Choice(values), Flag("-v")),))
    times: dict[Setting, float | None] = {setting(v=value): 1.0 for value in values}
    text = table.csv(study(times, spec)).text
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    expected = {f"'{value}" for value in values if isinstance(value, str)} - {"'plain"}
    assert {row["v"] for row in rows} == expected | {"plain", "-3"}


def test_csv_holds_no_control_character_and_six_digits() -> None:
    value = "\x1b]0;title\x07\u202etxt"
    spec = dataclasses.replace(SPEC, knobs=(Knob("v", Choice((value,)), Flag("-v")),))
    text = table.csv(study({BASELINE: 3.0, setting(v=value): 0.1 + 0.2}, spec)).text
    (row,) = (r for r in csv.DictReader(io.StringIO(text)) if r["kind"] == "setting")
    assert (row["v"], row["elapsed_s"]) == ("?]0;title??txt", "0.3")


def test_markdown_holds_no_link_picture_or_markup() -> None:
    value = "![x](http://h/p) <img> `a` *b* _c_ omp_threads &lt; ~~d~~"
    spec = dataclasses.replace(SPEC, knobs=(Knob("v", Choice((value,)), Flag("-v")),))
    text = table.markdown(study({BASELINE: 3.0, setting(v=value): 1.0}, spec)).text
    shown = r"\!\[x\](http:#//h/p) \<img> \`a\` \*b\* \_c\_ omp_threads \&lt; \~\~d\~\~"
    shown = shown.replace("#", "\u2060")  # a word joiner: no bare address becomes a link
    assert f"| {shown} |" in text
