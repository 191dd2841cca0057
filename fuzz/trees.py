"""Inputs from examples of a structured format (JSON, TOML): values and keys of a tree changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from fuzz.texts import LONGEST, Texts, one

#: Text that no value can be dumped to: it takes the place of a mark after the dump.
_RAW = (
    *(b"1e999", b"-1e999", b"9" * 4400, b"-" + b"9" * 4400, b"0" * 50, b"1e-999", b"-", b"01"),
    *(b"[" * 3000, b"[" * 1500 + b"]" * 1500, b'{"a":' * 3000, b'"\\ud800"', b'"\\u0000"'),
    *(b'{"a": 1, "a": 2}', b'"unterminated', b"//", b"'single'", b"\xff", b"1979-05-27T07:32:00Z"),
    *(b"0x" + b"f" * 4000, b"0b1", b"1_000", b"inf", b"nan", b"07:32:00", b'"""a\nb"""'),
)

#: Values of every kind, of the wrong one wherever they are put.
_VALUES: tuple[Any, ...] = (
    *(0, 1, -1, 2, 3, 7, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**30, 10**400),
    *(0.0, -0.0, 0.5, 1.5, 5e-324, 1e-300, 1e300, 1.7976931348623157e308, float("inf")),
    *(float("-inf"), float("nan"), True, False, None, "", " ", "a", "unset", "1..4", "1,2,4"),
    *("9" * 25, "1..10000000000", "4..1", "0.5%", "90s", "1e400s", "\ud800", "\0", "\x1b[31m"),
    *("\xb2", "\u0663", "\n", "../x", "{out}", "{", "}}", "-1", "cores", "x" * 3000, "$(id)"),
    *([], [[]], [1], ["a"], [None], [1, 1], [True], [1.5], {}, {"a": 1}, {"": 0}, [{}], [[[[1]]]]),
)

_Slot = tuple[Any, Any]  # a container and the key or index of one of its values


class Trees:
    """Makes inputs of documents.

    Args:
        seeds: Sound documents.
        words: Keys and texts of the format.
        dump: The document as text.
    """

    def __init__(
        self,
        seeds: Sequence[Any],
        words: Sequence[str] = (),
        dump: Callable[[Any], bytes] = lambda tree: json.dumps(tree).encode(),
    ) -> None:
        self._seeds = [json.dumps(seed) for seed in seeds]
        self._words = tuple(words) or ("a",)
        self._dump = dump
        self._texts = Texts([dump(seed) for seed in seeds], [each.encode() for each in words])

    def __call__(self, rng: Random) -> bytes:
        """One input; in one of ten the text is changed as well."""
        tree = json.loads(one(rng, self._seeds))
        raw: list[bytes] = []
        for _ in range(1 + int(rng.expovariate(0.8))):
            tree = self._change(rng, tree, raw)
        data = self._dump(tree)
        for number, text in enumerate(raw):
            data = data.replace(b'"raw-mark-%d"' % number, text)
        return self._texts.changed(rng, data) if rng.random() < 0.1 else data[:LONGEST]

    def _change(self, rng: Random, tree: Any, raw: list[bytes]) -> Any:
        slots: list[_Slot] = []
        _walk(tree, slots)
        if not slots or rng.random() < 0.01:
            return self._value(rng, raw)
        owner, key = one(rng, slots)
        what = rng.random()
        if what < 0.5:
            owner[key] = self._value(rng, raw)
        elif what < 0.6:
            del owner[key]
        elif what < 0.75:
            other, name = one(rng, slots)
            if not _holds(owner[key], other):  # else the tree would hold itself
                other[name] = owner[key]
        elif isinstance(owner, dict):
            owner[one(rng, self._words)] = self._value(rng, raw)
        else:
            owner[key:key] = owner[key : key + 1] * one(rng, (1, 1, 2, 20))
        return tree

    def _value(self, rng: Random, raw: list[bytes]) -> Any:
        kind = rng.random()
        if kind < 0.15:
            raw.append(one(rng, _RAW))
            return f"raw-mark-{len(raw) - 1}"
        if kind < 0.3:
            return one(rng, self._words)
        if kind < 0.45:
            return int(rng.random() * 20) - 2
        if kind < 0.55:
            return rng.random() * 10.0 ** int(rng.random() * 20 - 5)
        value = one(rng, _VALUES)
        return json.loads(json.dumps(value)) if isinstance(value, list | dict) else value


def _walk(tree: Any, slots: list[_Slot]) -> None:
    pairs = tree.items() if isinstance(tree, dict) else ()
    for key, value in enumerate(tree) if isinstance(tree, list) else pairs:
        slots.append((tree, key))
        if isinstance(value, dict | list):
            _walk(value, slots)


def _holds(tree: Any, wanted: Any) -> bool:
    if tree is wanted:
        return True
    inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return any(_holds(each, wanted) for each in inner if isinstance(each, dict | list))
