"""A Chainer trainer that is measured live: the same samples and losses, and a later end."""

from __future__ import annotations

import multiprocessing
import random
import signal
import threading
import time
from collections.abc import Iterator
from multiprocessing import heap
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compat
from tests.live_agent import FakeAgent, install, refusing
from tuner import live
from tuner.live.client.for_chainer import Communicators, LiveIterator

compat.install()

pytestmark = pytest.mark.filterwarnings("ignore:setDaemon")  # Chainer's

Batch = list[tuple[float, int]]


class Numbered:
    """A dataset whose examples tell their number."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return np.full(3, index, np.float32), int(index)


def iterator(length: int = 17, batch: int = 4, **how: Any) -> Any:
    from chainer.iterators import MultiprocessIterator

    np.random.seed(0)
    return MultiprocessIterator(Numbered(length), batch, n_processes=1, **how)


def live_iterator(found: Any) -> FakeAgent:
    assert LiveIterator.fits(found)
    agent = FakeAgent()
    LiveIterator(found).knobs.offer(agent)
    return agent


def numbers(batch: Batch) -> list[int]:
    assert all(array[0] == number for array, number in batch)  # type: ignore[index]
    return [number for _, number in batch]


def states(found: Any, count: int, switches: dict[int, dict[str, Any]]) -> list[Any]:
    """Batches with the iterator's state behind each; switched before those of a number."""
    agent, seen = live_iterator(found), []
    for step in range(count):
        if step in switches:
            assert agent.switch(**switches[step]) == []
            assert agent.read().items() >= switches[step].items()
        batch = numbers(found.next())
        seen.append((batch, found.epoch, found.is_new_epoch, found.previous_epoch_detail))
    found.finalize()
    assert multiprocessing.active_children() == []
    return seen


def at_random(seed: int, count: int) -> dict[int, dict[str, Any]]:
    generator = random.Random(seed)
    return {
        step: {"iterator_workers": generator.randint(1, 3), "prefetch": generator.randint(1, 6)}
        for step in generator.sample(range(count), 6)
    }


@pytest.mark.parametrize("length", [16, 17])
def test_switches_change_no_sample_and_no_order(length: int) -> None:
    """17 examples in batches of 4: an epoch ends in the middle of a batch. In batch 4 and 8 one
    begins, and six batches ahead the loader has drawn the order of the next one already."""
    plain = states(iterator(length), 14, {})
    for seed in range(2):
        assert states(iterator(length), 14, at_random(seed, 14)) == plain
    edges = {step: {"iterator_workers": 1 + step % 2, "prefetch": 6} for step in (0, 3, 4, 5, 8)}
    assert states(iterator(length), 14, edges) == plain
    seen = [number for batch, *_ in plain for number in batch]
    assert sorted(seen[:length]) == sorted(seen[length : 2 * length]) == list(range(length))


def test_batches_larger_than_the_data_and_no_order_at_all() -> None:
    for how in ({"length": 3, "batch": 7}, {"shuffle": False}):
        assert states(iterator(**how), 6, at_random(5, 6)) == states(iterator(**how), 6, {})


def test_old_workers_and_their_memory_are_gone() -> None:
    found = iterator(shared_mem=1 << 20)
    agent = live_iterator(found)
    arenas = set()
    for step in range(8):
        agent.switch(iterator_workers=1 + step % 3)
        numbers(found.next())
        assert len(multiprocessing.active_children()) == 1 + step % 3
        arenas.add(len(heap.BufferWrapper._heap._arenas))  # type: ignore[attr-defined]
    assert max(arenas) <= 2
    found.finalize()


@pytest.fixture
def handled() -> Iterator[None]:
    """The program has a handler of SIGTERM: its workers have it too, and do not end by one."""
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("owner", "name", "number", "error"),
    [
        (ForkProcess, "_Popen", 1, BlockingIOError(11, "Resource temporarily unavailable")),
        (ForkProcess, "_Popen", 3, BlockingIOError(11, "Resource temporarily unavailable")),
        (threading.Thread, "start", 1, RuntimeError("can't start new thread")),
    ],
)
def test_if_workers_cannot_start_the_old_ones_go_on(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, number: int, error: Exception
) -> None:
    plain = states(iterator(), 6, {})
    found = iterator()
    agent = live_iterator(found)
    seen = [numbers(found.next()), numbers(found.next())]
    with refusing(monkeypatch, owner, name, number, error):
        assert agent.switch(iterator_workers=4, prefetch=2) == [f"{type(error).__name__}: {error}"]
    assert agent.read() == {"iterator_workers": 1, "prefetch": 1, "opencv_threads": None}
    assert len(multiprocessing.active_children()) == 1
    seen += [numbers(found.next()) for _ in range(4)]
    assert seen == [batch for batch, *_ in plain]
    found.finalize()


class Hanging(Numbered):
    def __getitem__(self, index: int) -> tuple[Any, int]:
        if index == 5:
            time.sleep(1000)
        return super().__getitem__(index)


@pytest.mark.usefixtures("handled")
def test_a_worker_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    from chainer.iterators import MultiprocessIterator

    found = MultiprocessIterator(Hanging(8), 4, shuffle=False, n_processes=2, shared_mem=0)
    changed, agent = LiveIterator(found), FakeAgent()
    changed.knobs.offer(agent)
    assert numbers(found.next()) == [0, 1, 2, 3]
    monkeypatch.setattr("tuner.live.client.for_chainer._PATIENCE_S", 0.3)
    for workers in (1, 2):
        assert agent.switch(iterator_workers=workers) == []
        assert len(multiprocessing.active_children()) == workers
    changed.stop()
    assert multiprocessing.active_children() == []
    found.finalize()


def test_a_lock_that_a_killed_worker_held_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the kernel does where memory is short; who waits for a task holds the queue's lock."""
    found = iterator()
    agent = live_iterator(found)
    seen = [numbers(found.next())]
    (worker,) = multiprocessing.active_children()
    lock = found._prefetch_loop._pool._inqueue._rlock
    while lock.acquire(block=False):
        lock.release()
        time.sleep(0.01)
    worker.kill()
    monkeypatch.setattr("tuner.live.client.for_chainer._PATIENCE_S", 0.3)
    assert agent.switch(iterator_workers=2) == []
    assert len(multiprocessing.active_children()) == 2
    seen += [numbers(found.next()) for _ in range(4)]
    found.finalize()
    assert seen == [batch for batch, *_ in states(iterator(), 5, {})]


def test_others_are_left_alone() -> None:
    from chainer.iterators import SerialIterator

    assert not LiveIterator.fits(SerialIterator(Numbered(4), 2))
    started = iterator()
    started.next()
    assert not LiveIterator.fits(started)
    started.finalize()


# --- a whole trainer --------------------------------------------------------------------------

EXAMPLES, BATCH, ITERATIONS = 20, 6, 9


def trained(
    folder: Path, switches: dict[int, dict[str, Any]], agent: FakeAgent | None
) -> tuple[list[float], Any]:
    """The loss of each iteration, and the trainer at its end."""
    from chainer import links, optimizers, training
    from chainer.datasets import TupleDataset
    from chainer.iterators import MultiprocessIterator

    np.random.seed(0)
    images = np.random.random((EXAMPLES, 4)).astype(np.float32)
    data = TupleDataset(images, np.arange(EXAMPLES, dtype=np.int32) % 3)
    optimizer = optimizers.SGD(0.5).setup(links.Classifier(links.Linear(4, 3)))
    iterator = MultiprocessIterator(data, BATCH, n_processes=1, shared_mem=100)
    trainer = training.Trainer(
        training.StandardUpdater(iterator, optimizer), (ITERATIONS, "iteration"), str(folder)
    )
    losses: list[float] = []

    def follow(trainer: Any) -> None:
        losses.append(float(trainer.observation["main/loss"].array))
        if agent is not None and trainer.updater.iteration in switches:
            assert agent.switch(**switches[trainer.updater.iteration]) == []

    trainer.extend(follow, trigger=(1, "iteration"), name="follow")
    trainer.extend(live.ChainerExtension())
    trainer.run()
    assert multiprocessing.active_children() == []
    return losses, trainer


def test_the_losses_are_those_without_a_switch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, _ = trained(tmp_path, {}, None)
    agent = install(monkeypatch, FakeAgent())
    switches: dict[int, dict[str, Any]] = {
        1: {"iterator_workers": 2, "prefetch": 5},
        3: {"iterator_workers": 1},
        4: {"prefetch": 2, "opencv_threads": 1},
        8: {"iterator_workers": None, "prefetch": None, "opencv_threads": None},
    }
    switched, _ = trained(tmp_path, switches, agent)
    assert (len(plain), switched) == (ITERATIONS, plain)
    assert agent.read() == {"iterator_workers": 1, "prefetch": 1, "opencv_threads": None}


def test_it_goes_on_beyond_its_end_while_more_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = install(monkeypatch, FakeAgent())
    agent.wanted = 5
    losses, trainer = trained(tmp_path, {12: {"iterator_workers": 2}}, agent)
    assert len(losses) == ITERATIONS + 5
    assert trainer.stop_trigger.get_training_length() == (ITERATIONS, "iteration")


class NaiveCommunicator:
    __module__ = "chainermn.communicators.naive_communicator"


class PureNcclCommunicator:
    __module__ = "chainermn.communicators.pure_nccl_communicator"


def optimizer(communicator: Any) -> Any:
    import chainer
    from chainermn.optimizers import create_multi_node_optimizer

    return create_multi_node_optimizer(chainer.optimizers.SGD(), communicator)


def test_each_is_made_once_and_put_into_the_optimizers() -> None:
    made: list[str] = []

    def make(name: str) -> PureNcclCommunicator:
        made.append(name)
        return PureNcclCommunicator()

    first, agent = NaiveCommunicator(), FakeAgent()
    found, other = optimizer(first), optimizer(first)
    assert Communicators.fits([found, other])
    communicators = Communicators([found, other], make)
    agent.offer("communicator", communicators.apply, communicators.read)
    assert agent.read() == {"communicator": "naive"}
    for name in ("pure_nccl", "naive", "pure_nccl"):
        assert agent.switch(communicator=name) == []
        assert agent.read() == {"communicator": name}
        assert found.communicator is other.communicator
    agent.switch(communicator=None)
    assert found.communicator is first
    assert "communicator" not in vars(found.actual_optimizer)
    assert made == ["pure_nccl"]
