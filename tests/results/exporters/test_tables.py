"""Tables of every setting; Markdown of whole studies is in the snapshots."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

from tests import study_samples as samples
from tests.study_samples import SPEC, setting, study
from tuner.model import BASELINE, Choice, Flag, Knob, Setting, Value
from tuner.results.exporters import tables
from tuner.results.study_view import StudyView


def rows(data: StudyView) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(tables.csv(data).text, newline="")))


def with_values(*values: Value) -> StudyView:
    spec = replace(SPEC, knobs=(Knob("v", Choice(values), Flag("-v")),))
    times: dict[Setting, float | None] = {setting(v=value): 0.1 + 0.2 for value in values}
    return study({BASELINE: 3.0, **times}, spec)


def test_csv_has_a_row_for_each_setting_fastest_first() -> None:
    first, *_, baseline, failed = rows(study())
    assert (first["elapsed_s"], first["ratio"], first["kind"]) == ("3.6", "2.3100", "setting")
    assert (baseline["elapsed_s"], baseline["kind"]) == ("8.316", "baseline")
    assert failed["failure"].startswith("crashed")
    stopped = rows(samples.at_least())
    assert [row["bound_s"] for row in stopped] == ["", "", "4.1", "13.5", ""]
    assert (stopped[3]["elapsed_s"], stopped[3]["runs"], stopped[3]["launches"]) == ("", "0", "4")
    assert {row["ratio"] for row in stopped} == {""}, "stopped defaults have no speed"


def test_csv_carries_any_text_but_formulas_and_control_characters() -> None:
    formulas = ("=1+1", "+1", "-1", "@SUM(A1)", "\n=1")
    others: tuple[Value, ...] = ('a,"b"\nc', "\x1b]0;title\x07\u202etxt", -3)
    settings = [row for row in rows(with_values(*formulas, *others)) if row["kind"] == "setting"]
    assert {row["v"] for row in settings} == {
        *(f"'{text}" for text in formulas),
        *('a,"b"\nc', "?]0;title??txt", "-3"),
    }
    assert {row["elapsed_s"] for row in settings} == {"0.3"}, "six digits"


def test_markdown_keeps_its_columns_and_holds_no_link_picture_or_markup() -> None:
    value = "a|b ![x](http://h/p) <img> `a` *b* _c_ o_t &lt; ~~d~~\n"
    text = tables.markdown(with_values(value)).text
    shown = r"a\|b \!\[x\](http:#//h/p) \<img> \`a\` \*b\* \_c\_ o_t \&lt; \~\~d\~\~?"
    shown = shown.replace("#", "\u2060")  # a word joiner: no bare address becomes a link
    assert f"| {shown} |" in text
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in lines} == {6}
