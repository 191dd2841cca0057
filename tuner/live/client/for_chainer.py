"""Lets a study change the loader's workers and the communicator of a Chainer trainer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from tuner.live.client.loaders import (
    OPENCV,
    PATIENCE_S,
    PREFETCH,
    WORKERS,
    DatasetInWorkers,
    LoaderKnobs,
    OpenCvThreads,
    one_opencv_thread,
)
from tuner.live.client.session import Until, Values, find_agent

COMMUNICATOR = "communicator"

#: Parts of Chainer 7's iterator that are used here, beside what is public.
_PARTS = ("_comm", "_prefetch_loop", "_state", "order_sampler", "n_processes", "n_prefetch")


class ChainerExtension:
    """Lets a study change the loader's workers and the communicator of a Chainer trainer.

    ::

        from tuner import live

        trainer.extend(live.ChainerExtension())
        trainer.run()

    It offers ``iterator_workers``, ``prefetch`` and ``opencv_threads`` (those of the workers) if
    the updater's main iterator is a MultiprocessIterator, and ``communicator`` if its optimizers
    are multi-node optimizers of ChainerMN without double buffering. The trainer goes on beyond its
    stop trigger while the study wants it to. Outside live measurement it does nothing.

    ``communicator`` makes ChainerMN's communicator of a name, if the program needs more than
    ``chainermn.create_communicator(name, mpi_comm=…)``.
    """

    default_name = "TuneLive"

    def __init__(self, communicator: Callable[[str], Any] | None = None) -> None:
        self._communicator = communicator

    @staticmethod
    def trigger(_: Any) -> bool:
        """Never fire: all is done between two updates, by the agent in the rank."""
        return False

    def __call__(self, trainer: Any) -> None:
        """Do nothing."""

    def initialize(self, trainer: Any) -> None:
        """Offer the knobs, before the first update."""
        agent = find_agent()
        if agent is None:
            return
        iterator = None
        with suppress(AttributeError, KeyError):  # an updater of the program's own may have none
            iterator = trainer.updater.get_iterator("main")
        if LiveIterator.fits(iterator):
            LiveIterator(iterator).knobs.offer(agent)
        optimizers = list(trainer.updater.get_all_optimizers().values())
        if Communicators.fits(optimizers):
            communicators = Communicators(optimizers, self._communicator)
            agent.offer((COMMUNICATOR,), communicators.apply, communicators.read)
        trainer.stop_trigger = Until(trainer.stop_trigger, agent)


class Communicators:
    """Puts other communicators into ChainerMN's multi-node optimizers, which share one.

    Each is created once and kept: a study comes back to it, and MPI and NCCL allow only so many.
    """

    def __init__(self, optimizers: Sequence[Any], make: Callable[[str], Any] | None = None) -> None:
        self._optimizers = optimizers
        self._make = make or self._create
        self._current = optimizers[0].communicator
        self._communicators = {_name_of(self._current): self._current}

    @staticmethod
    def fits(optimizers: Sequence[Any]) -> bool:
        """Return whether their communicator can be changed: not if one has double buffering."""
        classes = {type(optimizer).__name__ for optimizer in optimizers}
        return (
            classes <= {"_MultiNodeOptimizer"}
            and len({id(optimizer.communicator) for optimizer in optimizers}) == 1
        )

    def apply(self, values: Values) -> None:
        """Have the optimizers use the communicator of this name from the next update on.

        Every rank has to call this in the same iteration: creating one is a collective call.
        """
        name = values[COMMUNICATOR]
        if name not in self._communicators:
            self._communicators[name] = self._make(name)
        self._current = self._communicators[name]
        for optimizer in self._optimizers:
            # Past its own __setattr__, which hands everything on to the optimizer inside.
            object.__setattr__(optimizer, "communicator", self._current)

    def read(self) -> Values:
        """Return the name of the communicator in force."""
        return {COMMUNICATOR: _name_of(self._current)}

    def _create(self, name: str) -> Any:
        from chainermn import create_communicator

        return create_communicator(name, mpi_comm=self._current.mpi_comm)


def _name_of(communicator: Any) -> str:
    """Return the name for ``create_communicator``: ``naive``, of ``….naive_communicator``."""
    return type(communicator).__module__.rpartition(".")[2].split("_communicator")[0]


# --- the loader ---------------------------------------------------------------------------


class EpochOrders:
    """An order sampler that gives the order of an epoch again to a loader that starts anew.

    A loader draws the order of an epoch when it loads the first batch of it, which may be long
    before the training comes to that epoch. A loader that starts anew would draw this order a
    second time: it would be another one, and so would all orders after it.
    """

    def __init__(self, sampler: Callable[[Any, int], Any], epoch: Callable[[], int]) -> None:
        self._sampler, self._training_epoch = sampler, epoch
        self._orders: dict[int, Any] = {}  # drawn so far, by epoch
        self._next_epoch = epoch() + 1

    def __call__(self, order: Any, position: int) -> Any:
        """Return the order of the epoch that follows the loader's."""
        epoch, training_epoch = self._next_epoch, self._training_epoch()
        self._next_epoch += 1
        self._orders = {n: kept for n, kept in self._orders.items() if n > training_epoch}
        if epoch not in self._orders:
            self._orders[epoch] = self._sampler(order, position)
        return self._orders[epoch]

    def rewind(self) -> None:
        """Have the loader's next order be that of the epoch after the training's."""
        self._next_epoch = self._training_epoch() + 1


class LiveIterator:
    """Changes a MultiprocessIterator in place, before its first batch or between two batches.

    What the old workers have loaded ahead is dropped and loaded again: the iterator's state is that
    of the last batch that was handed out.
    """

    def __init__(self, iterator: Any) -> None:
        self._iterator, self._dataset = iterator, iterator.dataset
        self._is_started = False
        self._orders: EpochOrders | None = None
        if iterator.order_sampler is not None:
            self._orders = EpochOrders(iterator.order_sampler, lambda: int(iterator.epoch))
            iterator.order_sampler = iterator._prefetch_loop.order_sampler = self._orders
        started = {WORKERS: iterator.n_processes, PREFETCH: iterator.n_prefetch, OPENCV: None}
        self.knobs = LoaderKnobs(started, self._restart)

    @staticmethod
    def fits(iterator: Any) -> bool:
        """Return whether an iterator can be changed: a MultiprocessIterator before its start."""
        return (
            type(iterator).__name__ == "MultiprocessIterator"
            and all(hasattr(iterator, part) for part in _PARTS)
            and iterator._prefetch_loop is not None
            and iterator._prefetch_loop.thread is None
        )

    def _restart(self, values: Mapping[str, Any]) -> None:
        iterator, old_loop = self._iterator, self._iterator._prefetch_loop
        self._is_started |= old_loop.thread is not None
        self.stop()
        if self._orders is not None:
            self._orders.rewind()
        workers, prefetch = int(values[WORKERS]), int(values[PREFETCH])
        comm = type(iterator._comm)(prefetch, iterator.dataset_timeout)
        comm.reset(iterator._state)
        loop = type(old_loop)(
            DatasetInWorkers(self._dataset, OpenCvThreads(values[OPENCV])),
            iterator.batch_size,
            iterator.repeat,
            workers,
            prefetch,
            old_loop.mem_size,  # else the new loop would load a batch in this process to measure it
            comm,
            iterator.order_sampler,
            iterator._interruption_testing,
            iterator._maxtasksperchild,
        )
        iterator.n_processes, iterator.n_prefetch = workers, prefetch
        iterator._comm, iterator._prefetch_loop = comm, loop
        if self._is_started:
            with one_opencv_thread():
                loop.launch_thread()

    def stop(self) -> None:
        """End the workers after the batch that they are loading, which leaves no lock held.

        Raises:
            TimeoutError: A worker does not finish that batch.
        """
        loop = self._iterator._prefetch_loop
        self._iterator._comm.terminate()
        if loop.thread is not None:
            loop.thread.join(PATIENCE_S)
            if loop.thread.is_alive():
                raise TimeoutError(f"a loader worker has not ended after {PATIENCE_S:g} s")
