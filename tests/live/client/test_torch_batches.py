"""What a loader draws ahead is neither lost nor given twice."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from tuner.live.client.torch_batches import Batches


@given(
    length=st.integers(0, 12),
    ahead=st.lists(st.integers(0, 6), max_size=6),
    seen=st.lists(st.integers(0, 6), max_size=6),
)
def test_every_batch_is_seen_once_an_epoch(length: int, ahead: list[int], seen: list[int]) -> None:
    """A loader per entry: it is so far ahead, and so many of its batches are seen."""
    batches = Batches(range(length))
    for epoch in range(2):
        batches.begin()
        got: list[int] = []
        for far, count in zip(ahead, seen, strict=False):
            loader = iter(batches)
            queue = [batch for _, batch in zip(range(far + count), loader, strict=False)]
            for batch in queue[:count]:
                got.append(batch)
                batches.seen()
            batches.rewind()
        for batch in batches:
            got.append(batch)
            batches.seen()
        assert got == list(range(length)), epoch


def test_an_epoch_that_is_left_early_is_over() -> None:
    class Epochs:
        number = 0

        def __iter__(self) -> Iterator[str]:
            self.number += 1
            return iter([f"{self.number}a", f"{self.number}b"])

    batches = Batches(Epochs())
    batches.begin()
    assert next(iter(batches)) == "1a"
    batches.begin()
    assert list(batches) == ["2a", "2b"]
