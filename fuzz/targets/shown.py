"""What is made of results: sentences about any two times, exports of any value."""

from __future__ import annotations

import math
import shlex
import struct
from contextlib import suppress
from random import Random

from fuzz.target import Target
from fuzz.targets.asked import LAUNCHER, MACHINE
from fuzz.texts import Texts, one
from tuner.knobs.pooling import Pooling
from tuner.launch import render
from tuner.launch.objectives.validation import MOST
from tuner.model import (
    BASELINE,
    Choice,
    Conclusion,
    Env,
    Finding,
    Flag,
    Knob,
    Layout,
    Measurement,
    Result,
    Sample,
    Setting,
    Stopped,
    StudySpec,
    StudyState,
    wording,
)
from tuner.model.errors import UsageError
from tuner.results import claims
from tuner.results.break_even import break_even
from tuner.results.exporters import Export, exporter_for
from tuner.results.study_view import StudyView
from tuner.stats import confirm

# --- times of any size -------------------------------------------------------------------

_EDGES = (
    5e-324,
    1e-300,
    1e-9,
    0.005,
    0.9995,
    1.0,
    9.995,
    59.5,
    99.95,
    3599.5,
    1e15,
    1e300,
    1.7e308,
)


def _times(rng: Random) -> bytes:
    """Eight times that a log may have held."""
    base = one(rng, _EDGES) if rng.random() < 0.5 else math.exp(rng.uniform(-20, 20))
    spread = one(rng, (0.0, 0.001, 0.3, 3.0, 700.0))
    times = [
        min(MOST, max(1 / MOST, base * math.exp(rng.uniform(-spread, spread)))) for _ in "x" * 8
    ]
    return struct.pack("<8d", *times)


def sentences(data: bytes) -> None:
    """Two settings with any times: what is claimed of them is a sentence."""
    times = [each for (each,) in struct.iter_unpack("<d", data[:64].ljust(64, b"\1"))]
    if not all(1 / MOST <= each <= MOST for each in times):
        return  # no log gives such a time
    for each in times:
        for text in (wording.seconds(each), wording.duration(each), wording.clock(each)):
            assert text
    sides: tuple[confirm.Side, ...] = ("reference", "best", "best", "reference")
    runs = [
        confirm.Run(side, times[(number * 3 + len(side)) % 8])
        for number, side in enumerate(sides * 12)
    ]
    for limit_s in (None, confirm.cut(confirm.Seen(times[0], times[1], times[2]))):
        found = confirm.judge(runs, limit_s=limit_s)
        for conclusion in (None, *Conclusion):
            faster = isinstance(found, Finding) and found.claim == "faster"
            if conclusion is Conclusion.FASTER and not faster:
                continue
            result = _result(times, found if isinstance(found, Finding) else None, conclusion)
            said = claims.comparison(result)
            assert said, "nothing was said"
            assert "nan" not in said, said
            claims.gain(conclusion, result.finding, result.ratio)
            claims.measured(result)
            paid = break_even(result)
            if paid is not None:
                assert claims.break_even(paid)


def _result(times: list[float], finding: Finding | None, conclusion: Conclusion | None) -> Result:
    best = Measurement(Setting.of({"a": 1}), (Sample(times[0], 10, 1.0),), times[0], 1)
    other = Measurement(BASELINE, (Sample(times[1], 10),), times[1], 1)
    if times[2] < 1:
        stopped = Stopped(times[3], times[4], times[3], None, 0.1, "drift")
        other = Measurement(BASELINE, (), None, 1, stopped=stopped)
    return Result(
        study="s",
        storage="x",
        state=StudyState.FINISHED,
        reason="done",
        candidate=best,
        baseline=other,
        reference=other if other.elapsed_s is not None else None,
        trials=3,
        launches=9,
        failures=0,
        conclusion=conclusion,
        finding=finding if conclusion is not None else None,
        search_s=times[5],
        confirm_s=times[6],
    )


# --- exports -----------------------------------------------------------------------------


def exports(data: bytes) -> None:
    """Hostile values and words in every format: read back as they were, nothing beside them."""
    text = data.replace(b"\0", b"").decode("utf-8", "replace")
    value, word, folder = ([*text.split("\x1f"), "x", "y", "z"])[:3]
    knobs = (
        Knob("v", Choice((value,)), Env(("V",))),
        Knob("w", Choice((value,)), Flag("--w")),
        Knob("u", Choice(("unset",)), Env(("U",))),
    )
    setting = Setting.of({"v": value, "w": value, "u": "unset"})
    template = ("prog", word.replace("{", "{{").replace("}", "}}"), "--out={out}")
    spec = StudySpec(
        "s", template, LAUNCHER, Layout(2), MACHINE, knobs, folder="/" + folder, source=word
    )
    best = Measurement(setting, (Sample(1.0, 10),), 1.0, 1)
    result = Result(
        *("s", "x", StudyState.FINISHED, "done", best, None, None, 1, 1, 0), export=setting
    )
    data_in = StudyView(spec, result, (), Pooling.from_records(spec, ()))
    _script(exporter_for("sh")(data_in), data_in)
    with suppress(UsageError):
        lines = exporter_for("env")(data_in).text.splitlines()
        assert [line for line in lines if not line.startswith("#")] == [f"V={value}"]
    args = exporter_for("args")(data_in).text
    assert shlex.split(args) == list(render.arguments(spec, setting))
    exporter_for("json")(data_in)
    for name in ("csv", "md"):
        assert exporter_for(name)(data_in).text


def _script(export: Export, data: StudyView) -> None:
    """The script's words, as a shell splits them."""
    comments, _, rest = export.text.partition("set -eu\n")
    assert all(line.startswith("#") for line in comments.splitlines() if line), comments
    words = shlex.split(rest[rest.index("\nexec ") + 6 :] if "\nexec " in rest else rest)
    assert f"V={data.best_setting.as_dict()['v']}" in words, words
    program = [word.replace("$OUT", "OUT") for word in words[words.index("prog") :]]
    wanted = render.program_argv(
        data.spec, data.best_setting, out="OUT", template=data.spec.command
    )
    assert program == [word.replace("$OUT", "OUT") for word in wanted], words


_VALUES = Texts(
    [
        b"1\x1fword\x1ffolder",
        b"$(touch x)\x1f`id`\x1fa b",
        b'a\'b\x1f"c"\x1f-n',
        b"\n#\x1f\r\n\x1f~",
    ],
    (
        b"\x1f",
        b"'",
        b'"',
        b"$(id)",
        b"`id`",
        b"\n",
        b"\r",
        b"!",
        b"*",
        b"~",
        b"{out}",
        b"$OUT",
        b"|",
        b"=cmd",
        b"\\",
        b";",
        b"&",
        b"#",
        b" ",
        "\u2028".encode(),
    ),
)

TARGETS = (
    Target("sentences", sentences, _times, share=0.15),
    Target("exports", exports, _VALUES, share=0.03),
)
