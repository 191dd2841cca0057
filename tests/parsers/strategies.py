"""Odd input for parsers: sound examples of a format, changed; what broke them stays as an example.

``make fuzz`` gives each test 20,000 inputs. A test that fails prints the shortest input that does.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

Test = Callable[[bytes], None]

DEEP = b"[" * 3000
LONG = b"9" * 4400  # more digits than Python reads
HEX = b"0x" + b"f" * 4000  # Python reads it without a limit, but does not write that many digits

#: A piece: a word, a number, blanks, or one other byte.
_PIECE = re.compile(rb"[A-Za-z_]+|[0-9]+(?:\.[0-9]+)?|\s+|.", re.DOTALL)

#: What has broken parsers before: edges of numbers, of Unicode, of terminals and of file names.
_ODD = (
    *(b"0", b"-1", b"-0", b"1e999", b"1e-999", b"5e-324", b"1.7976931348623157e308", b"0x1f"),
    *(b"9" * 19, b"9" * 400, LONG, HEX, b"NaN", b"-Infinity", b"nan", b"true", b"null", b"None"),
    *(b"", b"\0", b"\r", b"\r\n", b"\n\n", b"\t", b"\x1b[2J", b"\x7f", b"\xff", b"\xc3"),
    *(b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xf0\x9f\x98\x80", b'"\\ud800"', b'"\\u0000"', DEEP),
    *(each.encode() for each in ("\xb2", "\u0663", "\xe9", "\u2028", "\u202e", "\x85", "\u0130")),
    *(b"'", b'"', b"\\", b"`", b"$(id)", b"${HOME}", b"%s", b"{", b"}", b"{{", b"{}", b"~nobody-x"),
    *(b"../", b"/", b"//", b":", b"@", b"=", b",", b"..", b"-", b"--", b"#", b"?", b"&", b"%41"),
    *(b"unset", b"1..4", b"4..1", b"0.5%", b"{out}", b"cores", b"x" * 3000),
)
_SCALARS: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers(-3, 20)
    | st.sampled_from([2**31, 2**53 + 1, 2**63 - 1, 2**63, 10**30, 10**400])
    | st.floats()
    | st.sampled_from([each.decode("utf-8", "surrogatepass") for each in _ODD if each < b"\x80"])
)


@st.composite
def texts(draw: st.DrawFn, *seeds: bytes, words: str = "") -> bytes:
    """One of the sound inputs, some of its pieces replaced, left out, repeated or put elsewhere.

    ``words`` are more words of the format, with blanks between them.
    """
    own = {piece for seed in seeds for piece in _PIECE.findall(seed)}
    word = st.sampled_from([*sorted(own), *words.encode().split()]) | st.sampled_from(_ODD)
    pieces = list(_PIECE.findall(draw(st.sampled_from(list(seeds)))))
    for _ in range(draw(st.integers(0, 6))):
        start, stop = sorted(draw(st.tuples(*[st.integers(0, len(pieces))] * 2)))
        some = pieces[start:stop]
        cut = draw(st.booleans())
        changed = st.sampled_from([[], some * 2, some * 30]) | st.lists(word, max_size=3)
        pieces[start : stop if cut else start] = draw(changed)
    return b"".join(pieces)[:20_000]


@st.composite
def trees(
    draw: st.DrawFn,
    *seeds: Any,
    dump: Callable[[Any], bytes] = lambda tree: json.dumps(tree).encode(),
) -> bytes:
    """One of the sound documents, some of its values changed, left out or put elsewhere."""
    tree = {"": copy.deepcopy(draw(st.sampled_from(list(seeds))))}
    words = st.sampled_from(sorted({str(key) for _, key in _slots(tree)}))
    values: st.SearchStrategy[Any] = _SCALARS | words
    values |= st.lists(values, max_size=3)
    values |= st.dictionaries(words, values, max_size=2)
    for _ in range(draw(st.integers(0, 4))):
        owner, key = draw(st.sampled_from(list(_slots(tree))))
        how = draw(st.sampled_from(["replace", "remove", "copy", "add"]))
        if how == "replace" or owner is tree:
            owner[key] = draw(values)
        elif how == "remove":
            del owner[key]
        elif how == "copy":
            other, name = draw(st.sampled_from(list(_slots(tree))))
            other[name] = copy.deepcopy(owner[key])
        elif isinstance(owner, dict):
            owner[draw(words)] = draw(values)
        else:
            owner *= draw(st.sampled_from([2, 20]))
        if len(json.dumps(tree)) > 20_000:
            break
    return dump(tree.get(""))


def _slots(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a document: a container, and the key or index of one of its values."""
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in list(pairs):
        yield tree, key
        if isinstance(value, dict | list):
            yield from _slots(value)


def holds(inputs: st.SearchStrategy[bytes], *broken: bytes) -> Callable[[Test], Test]:
    """What the test says must hold of all inputs; of ``broken`` it once did not."""

    def decorate(test: Test) -> Test:
        test = given(data=inputs | st.binary(max_size=40))(test)
        for data in broken:
            test = example(data=data)(test)
        quiet = [HealthCheck.too_slow, HealthCheck.data_too_large]
        return settings(suppress_health_check=quiet)(test)

    return decorate
