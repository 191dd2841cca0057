"""Chainer's MultiprocessIterator with other workers, from its next sample on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tuner.live.client.loaders import (
    OPENCV,
    PREFETCH,
    WORKERS,
    InWorkers,
    LoaderKnobs,
    OpenCvThreads,
    Workers,
    opencv_threads,
)

#: Parts of Chainer 7's iterator that are used here, beside what is public.
_PARTS = ("_comm", "_prefetch_loop", "_state", "order_sampler", "n_processes", "n_prefetch")

#: So long an old loader may take for the batch that it has begun, s.
_PATIENCE_S = 20.0


class Orders:
    """An order sampler that gives the order of an epoch again to a loader that starts anew.

    A loader draws the next epoch's order when it loads the first batch of it, ahead of the
    training. Drawn a second time it would be another one, and all orders behind it as well.

    Args:
        sampler: The iterator's own.
        epoch: Says which epoch the training is in.
    """

    def __init__(self, sampler: Callable[[Any, int], Any], epoch: Callable[[], int]) -> None:
        self._sampler = sampler
        self._epoch = epoch
        self._drawn: dict[int, Any] = {}
        self._next = epoch() + 1

    def __call__(self, order: Any, position: int) -> Any:
        """The order of the epoch that follows the loader's."""
        number, now = self._next, self._epoch()
        self._next += 1
        self._drawn = {epoch: kept for epoch, kept in self._drawn.items() if epoch > now}
        if number not in self._drawn:
            self._drawn[number] = self._sampler(order, position)
        return self._drawn[number]

    def rewind(self) -> None:
        """The loader's next order follows the training's epoch, once more."""
        self._next = self._epoch() + 1


class LiveIterator:
    """Changes a MultiprocessIterator in place: whoever holds it sees the new workers.

    What the old workers have loaded ahead is dropped and loaded again: the iterator's state is that
    of the last batch that was handed out.

    Args:
        iterator: The iterator. It has not been asked for a batch.
    """

    def __init__(self, iterator: Any) -> None:
        self._iterator = iterator
        self._dataset = iterator.dataset
        self._workers = Workers()
        self._orders: Orders | None = None
        if iterator.order_sampler is not None:
            self._orders = Orders(iterator.order_sampler, lambda: int(iterator.epoch))
            iterator.order_sampler = iterator._prefetch_loop.order_sampler = self._orders
        self.knobs = LoaderKnobs(
            {WORKERS: iterator.n_processes, PREFETCH: iterator.n_prefetch, OPENCV: None},
            self._renew,
        )

    @staticmethod
    def fits(iterator: Any) -> bool:
        """Whether it is one that can be changed: a MultiprocessIterator that has not started."""
        return (
            type(iterator).__name__ == "MultiprocessIterator"
            and all(hasattr(iterator, part) for part in _PARTS)
            and iterator._prefetch_loop is not None
            and iterator._prefetch_loop.thread is None
        )

    def _renew(self, wanted: Mapping[str, Any]) -> None:
        started = self._iterator._prefetch_loop.thread is not None
        self._stop()
        try:
            self._start(wanted, workers_too=started)
        except Exception:
            self._stop()
            self._start(self.knobs.now, workers_too=started)
            raise

    def _stop(self) -> None:
        """End the workers; the batch in hand is loaded to its end, which leaves no lock held."""
        iterator = self._iterator
        loop = iterator._prefetch_loop
        iterator._comm.terminate()
        if loop.thread is not None:
            loop.thread.join(_PATIENCE_S)
        if loop._pool is not None:
            # here: for programs that change nothing
            from tuner.live.client.chainer_pool import end_pool

            end_pool(loop._pool)
        self._workers.end()

    def _start(self, wanted: Mapping[str, Any], *, workers_too: bool) -> None:
        iterator = self._iterator
        old = iterator._prefetch_loop
        threads = opencv_threads() if wanted[OPENCV] is None else int(wanted[OPENCV])
        if self._orders is not None:
            self._orders.rewind()
        workers, prefetch = int(wanted[WORKERS]), int(wanted[PREFETCH])
        comm = type(iterator._comm)(prefetch, iterator.dataset_timeout)
        comm.reset(iterator._state)
        loop = type(old)(
            InWorkers(self._dataset, OpenCvThreads(threads)),
            iterator.batch_size,
            iterator.repeat,
            workers,
            prefetch,
            old.mem_size,  # as measured: no batch is loaded in this process
            comm,
            iterator.order_sampler,
            iterator._interruption_testing,
            iterator._maxtasksperchild,
        )
        iterator.n_processes, iterator.n_prefetch = workers, prefetch
        iterator._comm, iterator._prefetch_loop = comm, loop
        if workers_too:
            from tuner.live.client.chainer_pool import launch

            with self._workers.starting():
                launch(loop)
