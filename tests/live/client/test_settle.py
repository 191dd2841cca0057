"""Knobs that a program settles together, in the agent of its rank."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

PROBE = Path(__file__).resolve().parents[3] / "wrappers" / "probe"


@pytest.fixture
def knobs(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(PROBE))
    return import_module("rank_live_knobs").Knobs()


class Loader:
    """Takes values, and comes to what they say when it settles."""

    def __init__(self) -> None:
        self.wanted = {"iterator_workers": 1, "prefetch": 2}
        self.now = dict(self.wanted)
        self.settled = 0

    def offer(self, knobs: Any) -> None:
        for knob in self.wanted:
            knobs.offer(
                knob,
                lambda value, knob=knob: self.wanted.update({knob: value}),
                lambda knob=knob: self.now[knob],
                self.settle,
            )

    def settle(self) -> None:
        self.settled += 1
        if self.wanted["iterator_workers"] > 8:
            raise MemoryError("too many")
        self.now = dict(self.wanted)


def test_one_settles_for_all_that_change_before_they_are_read(knobs: Any) -> None:
    loader = Loader()
    loader.offer(knobs)
    knobs.offer("chunk", print, lambda: 1)
    assert knobs.begin().items() >= {"iterator_workers": 1, "prefetch": 2, "chunk": 1}.items()
    assert knobs.change({"iterator_workers": 4, "prefetch": 3}) == []
    assert knobs.state(0, [])["values"].items() >= {"iterator_workers": 4, "prefetch": 3}.items()
    assert knobs.change({"chunk": 2}) == []
    assert loader.settled == 1
    assert knobs.change({"prefetch": None}) == []
    assert loader.now == {"iterator_workers": 4, "prefetch": 2}


def test_what_it_raises_is_told_of_each_that_changed(knobs: Any) -> None:
    loader = Loader()
    loader.offer(knobs)
    knobs.begin()
    assert knobs.change({"iterator_workers": 9}) == ["iterator_workers: MemoryError: too many"]
    assert len(knobs.change({"iterator_workers": 9, "prefetch": 1})) == 2
    assert knobs.state(0, [])["values"]["iterator_workers"] == 1


def test_opencv_is_set_in_the_rank_before_its_loader_starts_workers(knobs: Any) -> None:
    cv2 = pytest.importorskip("cv2")
    before = cv2.getNumThreads()
    seen: list[int | None] = []

    def settle() -> None:
        seen.append(cv2.getNumThreads())

    knobs.offer("opencv_threads", seen.append, lambda: None, settle)
    assert knobs.begin()["opencv_threads"] is None
    assert knobs.change({"opencv_threads": before + 2}) == []
    assert knobs.change({"opencv_threads": None}) == []
    assert seen == [before + 2, before + 2, None, before]
