from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import pytest

from tuner.model import Finished, Layout, Purpose, Setting
from tuner.store.fitting import fits


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, 3),
        (float, 3),
        (float, float("inf")),
        (str, ""),
        (int | None, None),
        (Literal["a", "b"], "b"),
        (tuple[int, ...], ()),
        (tuple[tuple[str, int | str], ...], (("a", 1), ("b", "x"))),
        (Mapping[str, str], {"a": "b"}),
        (dict[str, Any], {"a": [None]}),
        (Purpose, Purpose.SEARCH),
        (Setting, Setting.of({"a": 1})),
        (Finished, Finished(1.5, 20)),
    ],
    ids=str,
)
def test_what_fits(kind: Any, value: object) -> None:
    assert fits(kind, value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, True),
        (int, 2**63),
        (int, 1.0),
        (float, float("nan")),
        (float, "1"),
        (str, None),
        (int | None, "1"),
        (Literal["a", "b"], "c"),
        (tuple[int, ...], ("1",)),
        (tuple[int, ...], [1]),
        (tuple[str, int], ("a",)),
        (Mapping[str, str], {"a": 1}),
        (dict[str, Any], {1: 1}),
        (Purpose, "search"),
        (Layout, Layout("2")),  # type: ignore[arg-type]
        (Setting, Setting((("a", [1]),))),  # type: ignore[arg-type]
        (Finished, Finished(1.5, None)),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_what_does_not_fit(kind: Any, value: object) -> None:
    assert not fits(kind, value)
