"""Lets a study change the loader of a PyTorch training, which goes on beyond its own end."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from tuner.live.client.loaders import (
    OPENCV,
    PATIENCE_S,
    PINNED,
    PREFETCH,
    WORKERS,
    LoaderKnobs,
    OpenCvThreads,
    one_opencv_thread,
)
from tuner.live.client.session import RankAgent, Until, find_agent

L = TypeVar("L")

#: What a new loader takes over as it is: always, and from a loader with workers.
_KEPT_OPTIONS = ("dataset", "collate_fn", "pin_memory_device")
_WORKER_OPTIONS = ("timeout", "persistent_workers", "multiprocessing_context")

#: PyTorch's own default for a loader with workers.
_PREFETCH_FACTOR = 2


def torch_loader(loader: L, **worker_options: Any) -> L:
    """Return a DataLoader whose workers a study can change while the training runs.

    ::

        from tuner import live

        loader = live.torch_loader(DataLoader(dataset, 32, shuffle=True, num_workers=2))
        for batch in loader:
            ...

    It offers ``iterator_workers``, ``prefetch`` (the prefetch factor), ``opencv_threads`` (those of
    the workers) and, with a GPU, ``pin_memory``. Wrap the one loader that feeds the training. What
    comes back is used like it; after a switch its epoch goes on at the same batch.

    ``worker_options`` are ``persistent_workers`` and ``multiprocessing_context`` of a loader with
    workers, if this one has none. Outside live measurement the loader itself comes back, and so it
    does if it cannot be changed: it has started, has an iterable dataset or ``in_order=False``, or
    is a subclass that loads by itself.
    """
    agent = find_agent()
    if agent is None or not LiveLoader.fits(loader):
        return loader
    live = LiveLoader(loader, worker_options)
    live.knobs.offer(agent)
    return live  # type: ignore[return-value] # it has all that a loader has


class PpeExtension:
    """Reports a manager's iterations, which go on beyond their end while the study wants them.

    ::

        manager.extend(live.PpeExtension())
        while not manager.stop_trigger:
            ...

    :func:`torch_loader` offers the loader's knobs. A loop that counts epochs or iterations by
    itself instead of asking ``manager.stop_trigger`` ends where it would. Every rank has to extend
    its manager. Outside live measurement it does nothing.
    """

    default_name = "TuneLive"
    #: Before all others, so that an iteration's own work ends here.
    priority = 1000

    def __init__(self) -> None:
        self._agent: RankAgent | None = None
        self._epoch = 0
        self._is_marked = True  # the iteration under way: the first one starts workers

    def trigger(self, _: Any) -> bool:
        """Return whether to be called after this iteration: after each one, in a study."""
        return self._agent is not None

    def initialize(self, manager: Any) -> None:
        """Have the manager go on beyond its end, as long as the study wants more."""
        self._agent = agent = find_agent()
        if agent is None:
            return
        by_epoch = getattr(manager._stop_trigger, "unit", "epoch") == "epoch"

        def may_end(manager: Any) -> bool:
            return not by_epoch or float(manager.epoch_detail).is_integer()

        for name in ("_stop_trigger", "_internal_stop_trigger"):
            setattr(manager, name, Until(getattr(manager, name), agent, may_end))

    def __call__(self, manager: Any) -> None:
        """End an iteration."""
        if self._agent is None:
            return
        # What ends here began after the last call, with the evaluation of an epoch for instance.
        mark, epoch = self._is_marked, manager.epoch
        self._is_marked, self._epoch = epoch != self._epoch, epoch
        self._agent.step(mark)


class LiveLoader:
    """Stands in for a DataLoader, and draws the same random numbers, whatever is changed meanwhile.

    An epoch draws one for the workers' seeds (with persistent workers only the first epoch does),
    then those of the sampler.
    """

    def __init__(self, loader: Any, worker_options: Mapping[str, Any]) -> None:
        self._original, self._worker_options = loader, dict(worker_options)
        self._seeds: Any = type(_torch().default_generator)()
        #: Whether the next epoch draws the number that the seeds of its workers are made of.
        self._draws_seed = True
        self._sampler = ResumableSampler(loader._index_sampler)
        self._epoch, self._is_under_way = 0, False  # epochs begun so far
        self._epoch_batches: Any = None  # the iterator of the epoch that is under way
        started = {WORKERS: loader.num_workers, PREFETCH: loader.prefetch_factor, OPENCV: None}
        if _torch().cuda.is_available():
            started[PINNED] = "on" if loader.pin_memory else "off"
        self.knobs = LoaderKnobs(started, self._restart)
        self._loader = self._new_loader(started)

    @staticmethod
    def fits(loader: Any) -> bool:
        """Return whether a loader can be changed."""
        data = _torch().utils.data
        return (
            isinstance(loader, data.DataLoader)
            and not isinstance(loader.dataset, data.IterableDataset)
            and type(loader).__iter__ is data.DataLoader.__iter__
            and getattr(loader, "in_order", True)
            and loader._iterator is None
        )

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        return len(self._original)

    def __getattr__(self, name: str) -> Any:
        """Hand on what else a program asks of a loader: its dataset, its sampler."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._original, name)

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches of an epoch; an older one that is still under way ends."""
        self._epoch += 1
        own_epoch, original = self._epoch, self._original
        self._epoch_batches = None
        if self._draws_seed:
            empty = _torch().empty((), dtype=_torch().int64)
            self._seeds.manual_seed(int(empty.random_(generator=original.generator)))
        self._draws_seed = not (original.persistent_workers and original.num_workers > 0)
        self._sampler.begin()
        self._is_under_way = True
        self._start()
        try:
            while own_epoch == self._epoch:
                try:
                    batch = next(self._epoch_batches)
                except StopIteration:
                    return
                self._sampler.mark_delivered()
                yield batch
        finally:
            if own_epoch == self._epoch:  # workers that are not persistent end with the iterator
                self._epoch_batches, self._is_under_way = None, False

    def _start(self) -> None:
        with one_opencv_thread():
            self._epoch_batches = iter(self._loader)

    def _restart(self, values: Mapping[str, Any]) -> None:
        self.stop()
        self._loader = self._new_loader(values)
        if self._is_under_way:
            self._start()

    def stop(self) -> None:
        """End the workers, each after the batch that it is loading.

        Raises:
            TimeoutError: A worker does not end, though PyTorch sends it SIGTERM after 5 s.
        """
        workers = []
        for iterator in (self._epoch_batches, self._loader._iterator):
            if hasattr(iterator, "_shutdown_workers"):  # a loader without workers has none
                workers += iterator._workers
                iterator._shutdown_workers()
        self._epoch_batches = self._loader._iterator = None
        deadline_s = time.monotonic() + PATIENCE_S
        for worker in workers:
            worker.join(max(0.0, deadline_s - time.monotonic()))
            if worker.is_alive():
                raise TimeoutError(f"a loader worker has not ended after {PATIENCE_S:g} s")

    def _new_loader(self, values: Mapping[str, Any]) -> Any:
        """Return a loader like the original, with these values, over the rest of the epoch."""
        original, workers = self._original, int(values[WORKERS])
        options: dict[str, Any] = {name: getattr(original, name) for name in _KEPT_OPTIONS}
        if original.batch_sampler is None:
            options.update(batch_size=None, sampler=self._sampler)
        else:
            options["batch_sampler"] = self._sampler
        if workers > 0:
            prefetch = _PREFETCH_FACTOR if values[PREFETCH] is None else int(values[PREFETCH])
            options["prefetch_factor"] = prefetch
            options["worker_init_fn"] = OpenCvThreads(values[OPENCV], original.worker_init_fn)
            if original.num_workers > 0:
                options.update({name: getattr(original, name) for name in _WORKER_OPTIONS})
            else:
                options.update(self._worker_options)
        pinned = values[PINNED] == "on" if PINNED in values else original.pin_memory
        return _torch().utils.data.DataLoader(
            num_workers=workers, pin_memory=pinned, generator=self._seeds, **options
        )


class ResumableSampler:
    """A sampler whose epoch can go on where the training is: a loader draws ahead of that.

    Each new loader is given what was drawn and never reached the training, then the rest.
    """

    def __init__(self, sampler: Iterable[Any]) -> None:
        self._sampler = sampler
        self._rest: Iterator[Any] = iter(())  # of the epoch, not drawn yet
        self._undelivered: deque[Any] = deque()  # drawn, and not yet given to the training

    def __len__(self) -> int:
        """Return how many batches there are in an epoch, or examples of a loader without any."""
        return len(self._sampler)  # type: ignore[arg-type]

    def begin(self) -> None:
        """Begin a new epoch."""
        self._rest = iter(self._sampler)
        self._undelivered.clear()

    def mark_delivered(self) -> None:
        """Drop the oldest batch drawn: the training has been given it. Loaders keep the order."""
        self._undelivered.popleft()

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches of the epoch that the training has not been given."""
        yield from tuple(self._undelivered)
        for batch in self._rest:
            self._undelivered.append(batch)
            yield batch


def _torch() -> Any:
    return sys.modules["torch"]
