"""The communicator in a multi-node optimizer."""

from __future__ import annotations

from typing import Any

from tests.live_agent import FakeAgent
from tuner.live.client.chainer_exchange import Exchange
from workloads import compat

compat.install()


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
    assert Exchange.fits([found, other])
    Exchange([found, other], make).offer(agent)
    assert agent.read() == {"communicator": "naive"}
    for name in ("pure_nccl", "naive", "pure_nccl"):
        assert agent.switch(communicator=name) == []
        assert agent.read() == {"communicator": name}
        assert found.communicator is other.communicator
    agent.switch(communicator=None)
    assert found.communicator is first
    assert "communicator" not in vars(found.actual_optimizer)
    assert made == ["pure_nccl"]


def test_other_optimizers_are_left_alone() -> None:
    import chainer

    assert not Exchange.fits([])
    assert not Exchange.fits([optimizer(NaiveCommunicator()), chainer.optimizers.SGD()])
    assert not Exchange.fits([optimizer(NaiveCommunicator()), optimizer(NaiveCommunicator())])
