"""A Chainer trainer that is measured live: the same losses, a later end."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compat
from tests.live_agent import FakeAgent, install
from tuner import live
from tuner.live.client.for_chainer import Communicators

compat.install()

pytestmark = pytest.mark.filterwarnings("ignore:setDaemon")  # Chainer's

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
