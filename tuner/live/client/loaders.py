"""What all loaders share: their knobs, their worker processes, and OpenCV's threads in these."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from tuner.live.client.loop import RankAgent

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

#: The knobs, as the studies call them.
WORKERS, PREFETCH, OPENCV, PINNED = "iterator_workers", "prefetch", "opencv_threads", "pin_memory"

#: A process that another thread has reaped is noted as ended after this at the latest, s.
_REAPED_S = 5.0


class LoaderKnobs:
    """The knobs of a loader: collected in a switch, and brought into force together.

    Args:
        started: The values at the job's start, by knob.
        restart: Starts the loader anew with these values, after the last batch that the training
            was given. If it raises it is called once more, with the old values.
    """

    def __init__(
        self, started: Mapping[str, Any], restart: Callable[[Mapping[str, Any]], object]
    ) -> None:
        self._started, self._restart = dict(started), restart
        self._now, self._requested = dict(started), dict(started)

    def offer(self, agent: RankAgent) -> None:
        """Offer all of them."""
        for knob in self._started:
            agent.offer(
                knob, partial(self._want, knob), partial(self._read, knob), settle=self._settle
            )

    def _want(self, knob: str, value: Any) -> None:
        self._requested[knob] = self._started[knob] if value is None else value

    def _read(self, knob: str) -> Any:
        return self._now[knob]

    def _settle(self) -> None:
        requested, self._requested = self._requested, dict(self._now)
        if requested == self._now:
            return
        try:
            self._restart(requested)
        except Exception:
            self._restart(self._now)
            raise
        self._now, self._requested = requested, dict(requested)


class Workers:
    """The worker processes of one loader, by what its start adds to this process's children."""

    def __init__(self) -> None:
        self._alive: set[BaseProcess] = set()

    @contextmanager
    def starting(self) -> Iterator[None]:
        """While a loader starts; if the start fails, what it leaves behind is ended.

        A forked child has none of OpenCV's threads, but OpenCV 5.0 believes it has, and waits for
        them for ever once their number is set. With one thread it has none.
        """
        before = _children()
        number = opencv_threads()
        if number is not None:
            sys.modules["cv2"].setNumThreads(1)
        try:
            yield
        except BaseException as error:
            from traceback import clear_frames  # here: for programs that change nothing

            clear_frames(error.__traceback__)  # a loader that has started by half ends itself
            end(_children() - before)
            raise
        finally:
            if number is not None:
                sys.modules["cv2"].setNumThreads(number)
            self._alive |= _children() - before

    def end(self) -> None:
        """End those that the loader's own shutdown has left."""
        end(self._alive)
        self._alive = set()


def _children() -> set[BaseProcess]:
    from multiprocessing import active_children  # not at the top: for programs without loaders

    return set(active_children())


def end(processes: Iterable[BaseProcess]) -> None:
    """Kill and reap; none of them is alive afterwards."""
    processes = list(processes)
    for process in processes:
        process.kill()
    end_s = time.monotonic() + _REAPED_S
    for process in processes:
        process.join()
        # Another thread that joins it too may have reaped it, and not noted that yet.
        while process.is_alive() and time.monotonic() < end_s:
            time.sleep(1e-3)


def opencv_threads() -> int | None:
    """OpenCV's number of threads in this process; ``None`` if it is not loaded."""
    cv2 = sys.modules.get("cv2")
    return None if cv2 is None else int(cv2.getNumThreads())


class OpenCvThreads:
    """Sets OpenCV's threads in a worker, as the environment would: what the program sets wins.

    It is the worker's first call in PyTorch's loader. Picklable: workers may be spawned.

    Args:
        number: How many; ``None``: as many as in this process.
        then: The program's own ``worker_init_fn``.
    """

    def __init__(self, number: int | None, then: Callable[[int], Any] | None = None) -> None:
        self._number = opencv_threads() if number is None else int(number)
        self._then = then
        self._owner = os.getpid()

    def __call__(self, worker: int = 0) -> None:
        """Set them, at the first call in a worker. In the rank itself nothing is set."""
        if self._number is not None and os.getpid() != self._owner:
            os.environ["OPENCV_FOR_THREADS_NUM"] = str(self._number)  # if it is loaded later
            if "cv2" in sys.modules:
                sys.modules["cv2"].setNumThreads(self._number)
        if self._then is not None:
            self._then(worker)


class InWorkers:
    """A dataset in which a worker's first example sets OpenCV's threads (Chainer's loader)."""

    def __init__(self, dataset: Any, threads: OpenCvThreads) -> None:
        self._dataset, self._threads = dataset, threads
        self._set_in = os.getpid()

    def __len__(self) -> int:
        """Of the dataset."""
        return len(self._dataset)

    def __getitem__(self, index: Any) -> Any:
        """Of the dataset."""
        if self._set_in != os.getpid():
            self._set_in = os.getpid()
            self._threads()
        return self._dataset[index]
