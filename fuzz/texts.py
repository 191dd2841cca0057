"""Inputs from examples of a text format: their pieces changed, moved, repeated, put together."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")

#: A piece: a word, a number, blanks, or one other byte.
_PIECE = re.compile(rb"[A-Za-z_]+|[0-9]+(?:\.[0-9]+)?|\s+|.", re.DOTALL)

#: What has broken parsers before: edges of numbers, of Unicode, of terminals and of file names.
ODD = (
    *(b"0", b"-1", b"-0", b"1e999", b"1e-999", b"5e-324", b"1.7976931348623157e308", b"0x1f"),
    *(b"9" * 19, b"9" * 400, b"9" * 4400, b"0x" + b"f" * 4000, b"NaN", b"-Infinity", b"nan"),
    *(b"true", b"null", b"None", b"", b"\0", b"\r", b"\r\n", b"\n\n", b"\t", b"\x1b[2J", b"\x7f"),
    *(b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xf0\x9f\x98\x80"),
    *(each.encode() for each in ("\xb2", "\u0663", "\xe9", "\u2028", "\u202e", "\x85", "\u0130")),
    *(b"'", b'"', b"\\", b"`", b"$(id)", b"${HOME}", b"%s", b"{", b"}", b"{{", b"{}", b"~nobody-x"),
    *(b"../", b"/", b"//", b":", b"@", b"=", b",", b"..", b"-", b"--", b"#", b"?", b"&", b"%41"),
)

#: The longest input, bytes: what is longer takes time and finds nothing that this does not.
LONGEST = 20_000

_Pieces = list[bytes]


class Texts:
    """Makes inputs of examples.

    Args:
        seeds: Sound inputs, or nearly so.
        words: The format's own words, put in more often than what is odd anywhere.
    """

    def __init__(self, seeds: Sequence[bytes], words: Sequence[bytes] = ()) -> None:
        self._seeds = [_PIECE.findall(seed) for seed in seeds]
        own = {piece for pieces in self._seeds for piece in pieces}
        self._words = (*words, *words, *sorted(own), *ODD)

    def __call__(self, rng: Random) -> bytes:
        """One input; in one of thirty the seed itself."""
        pieces = list(one(rng, self._seeds))
        if rng.random() > 0.03:
            self.mutate(rng, pieces)
        return b"".join(pieces)[:LONGEST]

    def mutate(self, rng: Random, pieces: _Pieces) -> None:
        """Change some of the pieces, in place."""
        for _ in range(1 + int(rng.expovariate(0.6))):
            one(rng, _CHANGES)(self, rng, pieces)

    def changed(self, rng: Random, data: bytes) -> bytes:
        """Another input of a given one."""
        pieces = _PIECE.findall(data[:LONGEST])
        self.mutate(rng, pieces)
        return b"".join(pieces)[:LONGEST]

    def word(self, rng: Random) -> bytes:
        """A word of the format, or an odd one."""
        found: bytes = one(rng, self._words)
        return found

    def _replace(self, rng: Random, pieces: _Pieces) -> None:
        if pieces:
            pieces[_at(rng, pieces)] = self.word(rng)

    def _insert(self, rng: Random, pieces: _Pieces) -> None:
        pieces.insert(int(rng.random() * (len(pieces) + 1)), self.word(rng))

    def _delete(self, rng: Random, pieces: _Pieces) -> None:
        if pieces:
            start = _at(rng, pieces)
            del pieces[start : start + 1 + int(rng.expovariate(0.7))]

    def _repeat(self, rng: Random, pieces: _Pieces) -> None:
        if pieces:
            start = _at(rng, pieces)
            some = pieces[start : start + 1 + int(rng.expovariate(0.5))]
            pieces[start:start] = some * one(rng, (1, 1, 2, 3, 30, 1200))

    def _swap(self, rng: Random, pieces: _Pieces) -> None:
        if pieces:
            a, b = _at(rng, pieces), _at(rng, pieces)
            pieces[a], pieces[b] = pieces[b], pieces[a]

    def _cut(self, rng: Random, pieces: _Pieces) -> None:
        if pieces:
            del pieces[_at(rng, pieces) :]

    def _join(self, rng: Random, pieces: _Pieces) -> None:
        other = one(rng, self._seeds)
        if other:
            pieces[int(rng.random() * (len(pieces) + 1)) :] = other[_at(rng, other) :]

    def _byte(self, rng: Random, pieces: _Pieces) -> None:
        if pieces:
            place = _at(rng, pieces)
            piece = bytearray(pieces[place])
            if piece:
                piece[_at(rng, piece)] = int(rng.random() * 256)
                pieces[place] = bytes(piece)


_CHANGES: tuple[Callable[[Texts, Random, _Pieces], None], ...] = (
    *(Texts._replace, Texts._replace, Texts._insert, Texts._delete, Texts._repeat),
    *(Texts._swap, Texts._cut, Texts._join, Texts._byte),
)


def one(rng: Random, choices: Sequence[T]) -> T:
    """One of them, cheaper than ``Random.choice``."""
    return choices[int(rng.random() * len(choices))]


def _at(rng: Random, things: Sequence[object] | bytearray) -> int:
    return int(rng.random() * len(things))
