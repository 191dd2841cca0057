"""What all loaders share: their knobs, and OpenCV's threads in their workers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tuner.live.client.session import RankAgent, Values

#: The knobs, as the studies call them.
WORKERS, PREFETCH, OPENCV, PINNED = "iterator_workers", "prefetch", "opencv_threads", "pin_memory"

#: Old workers may take this long for the batch that they have begun, s.
PATIENCE_S = 20.0


class LoaderKnobs:
    """The knobs of a loader, brought into force together.

    `restart` starts the loader anew with these values, after the last batch that the training was
    given. If it raises, ``tune`` ends the job, and starts another one with the setting.
    """

    def __init__(self, started: Values, restart: Callable[[Values], object]) -> None:
        self._now, self._restart = dict(started), restart

    def offer(self, agent: RankAgent) -> None:
        """Offer all of them."""
        agent.offer(tuple(self._now), self._apply, lambda: dict(self._now))

    def _apply(self, values: Values) -> None:
        new = {**self._now, **values}
        if new != self._now:
            self._restart(new)
            self._now = new


@contextmanager
def one_opencv_thread() -> Iterator[None]:
    """Have OpenCV use one thread here while workers are forked.

    A forked child has none of OpenCV's threads, but OpenCV 5.0 believes it has, and waits for them
    for ever once their number is set. With one thread it has none.
    """
    threads = opencv_threads()
    if threads is not None:
        sys.modules["cv2"].setNumThreads(1)
    try:
        yield
    finally:
        if threads is not None:
            sys.modules["cv2"].setNumThreads(threads)


def opencv_threads() -> int | None:
    """Return OpenCV's number of threads in this process; ``None`` if it is not loaded."""
    cv2 = sys.modules.get("cv2")
    return None if cv2 is None else int(cv2.getNumThreads())


class OpenCvThreads:
    """Sets OpenCV's threads in a worker, as the environment would: what the program sets wins.

    It is the worker's first call in PyTorch's loader. Picklable: workers may be spawned. Without a
    `number` a worker gets as many threads as this process has. `then` is the program's own
    ``worker_init_fn``.
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
        """Return the length of the dataset."""
        return len(self._dataset)

    def __getitem__(self, index: Any) -> Any:
        """Return an example of the dataset."""
        if self._set_in != os.getpid():
            self._set_in = os.getpid()
            self._threads()
        return self._dataset[index]
