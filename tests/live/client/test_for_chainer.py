"""What of a Chainer trainer is changed live: the same samples, and another communicator."""

from __future__ import annotations

import multiprocessing
import random
from typing import Any

import numpy as np
import pytest

import compat
from tests.live.client.conftest import Threads
from tests.live_agent import FakeAgent
from tuner.live.client.for_chainer import Communicators, LiveIterator

compat.install()

pytestmark = pytest.mark.filterwarnings("ignore:setDaemon")  # Chainer's


def iterator(length: int = 17, batch: int = 4, **how: Any) -> Any:
    """An iterator over a dataset whose examples tell their number."""
    from chainer.iterators import MultiprocessIterator

    np.random.seed(0)
    dataset = [(np.full(3, number, np.float32), number) for number in range(length)]
    return MultiprocessIterator(dataset, batch, n_processes=1, **how)


def states(loader: Any, switches: dict[int, dict[str, Any]]) -> list[Any]:
    """Return 14 batches with the iterator's state behind each, some of them after a switch."""
    assert LiveIterator.fits(loader)
    agent, result = FakeAgent(), []
    LiveIterator(loader).knobs.offer(agent)
    for step in range(14):
        if step in switches:
            agent.switch(**switches[step])
            assert agent.read().items() >= switches[step].items()
        batch = loader.next()
        assert all(array[0] == number for array, number in batch)
        numbers = [number for _, number in batch]
        result.append((numbers, loader.epoch, loader.is_new_epoch, loader.previous_epoch_detail))
    loader.finalize()
    assert multiprocessing.active_children() == []
    return result


GENERATOR = random.Random(5)
AT_RANDOM = {
    step: {"iterator_workers": GENERATOR.randint(1, 3), "prefetch": GENERATOR.randint(1, 6)}
    for step in GENERATOR.sample(range(14), 6)
}
#: In batch 4 and 8 an epoch begins, and six batches ahead its order has been drawn already.
EDGES = {step: {"iterator_workers": 1 + step % 2, "prefetch": 6} for step in (0, 3, 4, 5, 8)}


@pytest.mark.parametrize(
    ("how", "switches"),
    [
        ({"length": 17}, EDGES),  # an epoch ends in the middle of a batch
        ({"length": 3, "batch": 7}, AT_RANDOM),
        ({"length": 16, "shuffle": False}, AT_RANDOM),
    ],
)
def test_switches_keep_samples(how: dict[str, Any], switches: dict[int, dict[str, Any]]) -> None:
    assert states(iterator(**how), switches) == states(iterator(**how), {})


def test_others_are_left_alone() -> None:
    from chainer.iterators import SerialIterator

    assert not LiveIterator.fits(SerialIterator([1, 2, 3, 4], 2))
    started = iterator()
    started.next()
    assert not LiveIterator.fits(started)
    started.finalize()


def communicator(name: str) -> Any:
    return type("Any", (), {"__module__": f"chainermn.communicators.{name}_communicator"})()


def test_a_communicator_is_made_once_and_put_into_the_optimizers() -> None:
    import chainer
    from chainermn.optimizers import create_multi_node_optimizer

    names: list[str] = []

    def make(name: str) -> Any:
        names.append(name)
        return communicator(name)

    first, agent = communicator("naive"), FakeAgent()
    both = [create_multi_node_optimizer(chainer.optimizers.SGD(), first) for _ in range(2)]
    assert Communicators.fits(both)
    communicators = Communicators(both, make)
    agent.offer(("communicator",), communicators.apply, communicators.read)
    for name in ("pure_nccl", "naive", "pure_nccl", None):
        agent.switch(communicator=name)
        assert agent.read() == {"communicator": name or "naive"}
        assert both[0].communicator is both[1].communicator
    assert both[0].communicator is first
    assert "communicator" not in vars(both[0].actual_optimizer)
    assert names == ["pure_nccl"]


def test_the_workers_get_opencvs_threads_and_the_rank_keeps_its_own(threads: int) -> None:
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
    assert Threads()[0] == threads
    found.finalize()
