"""What is typed: options, times and shares, commands with placeholders, words to complete."""

from __future__ import annotations

import math
import shlex
from contextlib import suppress
from pathlib import Path

from fuzz.target import Target
from fuzz.targets.asked import plan
from fuzz.texts import Texts
from tuner.config import program
from tuner.config.options import SECONDS, SHARE, WORDS
from tuner.launch import command
from tuner.model import units
from tuner.model.errors import UsageError

_TEMPLATE = ("python", "train.py", "--out", "{out}", "-j", "{iterator_workers}", "--a={a}")

_KNOBS = Texts(
    [
        b"k omp_threads=1..16\nk a=1,2,4",
        b"k omp_threads=unset,1,2\nf iterator_workers=2\nk a=x",
        b"k a=1..cores\nd a=3",
        b"k communicator=naive,flat\nf a=b",
        b"f omp_threads=4\nf a=-3\nd iterator_workers=0",
    ],
    (
        b"..",
        b",",
        b"=",
        b"\nk ",
        b"\nf ",
        b"\nd ",
        b"cores",
        b"unset",
        b"omp_threads",
        b"iterator_workers",
        b"opencv_threads",
        b"communicator",
        b"1..10000000000000",
        b"+1",
        b"-5",
    ),
)


def knob_options(data: bytes) -> None:
    """``--knob``, ``--fix`` and ``--baseline`` (``k``, ``f``, ``d``), a line each."""
    # as the system's words come to Python
    lines = data.replace(b"\0", b"").decode("utf-8", "surrogateescape").split("\n")
    given = {kind: tuple(x[2:] for x in lines if x.startswith(f"{kind} ")) for kind in "kfd"}
    typed = {"knobs": given["k"], "fixes": given["f"], "baselines": given["d"]}
    try:
        plan({}, typed, _TEMPLATE)
    except UsageError as error:
        assert error.message.strip(), "an error that says nothing"


def measures(data: bytes) -> None:
    """Times and shares: a finite number above 0, or the user's mistake."""
    text = data.decode("utf-8", "replace")
    with suppress(ValueError):
        assert 0 < units.parse_time_s(text) < math.inf, text
    with suppress(ValueError):
        assert 0 < units.parse_share(text) < 1, text
    for kind in (SECONDS, SHARE):
        with suppress(ValueError):
            assert math.isfinite(kind.read(text))


_MEASURES = Texts(
    [b"90", b"90s", b"1.5m", b"2h", b".5s", b"2min", b"0.5 %", b"2%", b"99.9%"],
    (b"s", b"m", b"min", b"h", b"%", b" ", b".", b"e", b"0", b"1" * 400, b"0." + b"0" * 400 + b"1"),
)


def templates(data: bytes) -> None:
    """A command with placeholders: filled in, cut down to the baseline, its script found."""
    text = data.replace(b"\0", b"").decode("utf-8", "surrogateescape")
    words = tuple(text.split("\n"))
    for word in words:
        doubled = word.replace("{", "{{").replace("}", "}}")
        assert command.fill(doubled, {}) == word, "a doubled brace is a brace"
    command.knobs_in(words)
    with suppress(UsageError):
        names = command.placeholders(words)
        values = dict.fromkeys(names, "value")
        assert len(command.substitute(words, values)) == len(words)
        command.carriers(words, values)
        with suppress(UsageError):
            command.substitute(words, {})
        command.check(words, names)
    with suppress(UsageError):
        command.check(words, ("iterator_workers",))
    if words[0].strip():
        with suppress(UsageError):
            program.script_of(words)
            program.stem(words)
            program.folder_of(words, (), Path("/"))


_COMMANDS = Texts(
    [
        b"python\ntrain.py\n--out\n{out}\n-j\n{iterator_workers}",
        b"{python}\n{workloads}/chainer_mnist.py\n--out={out}",
        b"/bin/sh\n-c\necho {{x}} {a}{b}\n{c}",
        b"python3\n-m\nmpi4py\na.py",
    ],
    (b"{out}", b"{", b"}", b"{{", b"}}", b"{a}", b"{1}", b"{}", b"\n", b"-j\n{a}", b"-m", b"-X"),
)


def words(data: bytes) -> None:
    """A command in a study file, split into words as a shell does."""

    text = data.decode("utf-8", "replace")
    with suppress(ValueError):
        found = WORDS.read(text)
        assert WORDS.read(shlex.join(found)) == found


_LINES = Texts(
    [b"python a.py --out {out} 'a b' \"c d\" e\\ f", b"a 'b", b"a \\"],
    (b"'", b'"', b"\\", b" ", b"#", b"\n", b"$x", b"`a`"),
)

TARGETS = (
    Target("knob_options", knob_options, _KNOBS, share=1.0),
    Target("measures", measures, _MEASURES, share=2.0),
    Target("templates", templates, _COMMANDS, share=0.6),
    Target("words", words, _LINES, share=0.5),
)
