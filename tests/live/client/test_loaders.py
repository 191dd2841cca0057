"""OpenCV's threads in loader workers, and the end of those that are left."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator

import pytest

import compat
from tests.live_agent import FakeAgent, install
from tuner import live
from tuner.live.client.for_chainer import LiveIterator

compat.install()

cv2 = pytest.importorskip("cv2")

pytestmark = pytest.mark.filterwarnings("ignore:setDaemon")  # Chainer's


class Threads:
    """A dataset whose examples are OpenCV's number of threads where they are loaded."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, _: int) -> int:
        import numpy as np

        image = np.zeros((400, 400, 3), np.uint8)
        cv2.warpAffine(image, cv2.getRotationMatrix2D((200, 200), 10, 1), (400, 400))
        return int(cv2.getNumThreads())


@pytest.fixture
def threads() -> Iterator[int]:
    """OpenCV's own number; its threads run in this process, as in a rank that loads itself."""
    before = cv2.getNumThreads()
    cv2.setNumThreads(3)
    Threads()[0]
    yield 3
    cv2.setNumThreads(before)


def test_chainers_workers_get_them_and_the_rank_keeps_its_own(threads: int) -> None:
    from chainer.iterators import MultiprocessIterator

    found = MultiprocessIterator(Threads(), 2, n_processes=1, shared_mem=0)
    agent = FakeAgent()
    LiveIterator(found).knobs.offer(agent)
    agent.switch(iterator_workers=2)  # nothing runs yet
    assert found.next() == [threads, threads]
    for number in (1, 2, 5):
        agent.switch(opencv_threads=number)
        assert found.next() == [number, number]
    agent.switch(opencv_threads=None)
    assert found.next() == [threads, threads]
    assert cv2.getNumThreads() == threads
    found.finalize()


def test_pytorchs_workers_get_them_too(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    torch = pytest.importorskip("torch")
    agent = install(monkeypatch, FakeAgent())
    given = torch.utils.data.DataLoader(Threads(), 2)
    loading = iter(live.torch_loader(given, multiprocessing_context="fork"))
    assert next(loading).tolist() == [threads, threads]  # by the rank itself
    for number in (1, 5):
        agent.switch(opencv_threads=number, iterator_workers=1)
        assert next(loading).tolist() == [number, number]
    agent.switch(opencv_threads=None, iterator_workers=None)
    assert next(loading).tolist() == [threads, threads]
    del loading
    assert multiprocessing.active_children() == []
