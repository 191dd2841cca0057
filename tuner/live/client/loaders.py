"""The knobs that all loaders have, and OpenCV's threads in their workers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tuner.live.client.session import RankAgent, Values

#: The knobs, as the studies call them.
WORKERS, PREFETCH, OPENCV, PINNED = "iterator_workers", "prefetch", "opencv_threads", "pin_memory"

#: Workers that are ended may take this long for the batch that they have begun, s.
PATIENCE_S = 20.0


class LoaderKnobs:
    """The knobs of a loader, which are brought into force together.

    `restart` starts the loader anew with these values, after the last batch that the training was
    given. If it raises, ``tune`` ends the job, and starts another one with the setting.
    """

    def __init__(self, started: Values, restart: Callable[[Values], object]) -> None:
        self._in_force, self._restart = dict(started), restart

    def offer(self, agent: RankAgent) -> None:
        """Offer all of them."""
        agent.offer(tuple(self._in_force), self._apply, lambda: dict(self._in_force))

    def _apply(self, values: Values) -> None:
        new = {**self._in_force, **values}
        if new != self._in_force:
            self._restart(new)
            self._in_force = new


@contextmanager
def one_opencv_thread() -> Iterator[None]:
    """Have OpenCV use one thread in this process while workers are forked.

    A forked child has none of OpenCV's threads, but OpenCV 5.0 acts as if it had, and waits for
    them for ever once their number is set. With one thread there is none to wait for.
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

    PyTorch's loader calls this first in a worker. It can be pickled, since workers may be spawned.
    Without `threads` a worker gets as many as this process has. `user_init` is the program's own
    ``worker_init_fn``.
    """

    def __init__(self, threads: int | None, user_init: Callable[[int], Any] | None = None) -> None:
        self._threads = opencv_threads() if threads is None else int(threads)
        self._user_init = user_init
        self._rank_pid = os.getpid()

    def __call__(self, worker: int = 0) -> None:
        """Set the threads, if this is a worker. In the rank itself nothing is set."""
        if self._threads is not None and os.getpid() != self._rank_pid:
            os.environ["OPENCV_FOR_THREADS_NUM"] = str(self._threads)  # if OpenCV is loaded later
            if "cv2" in sys.modules:
                sys.modules["cv2"].setNumThreads(self._threads)
        if self._user_init is not None:
            self._user_init(worker)


class DatasetInWorkers:
    """A dataset in which a worker's first example sets OpenCV's threads (Chainer's loader)."""

    def __init__(self, dataset: Any, threads: OpenCvThreads) -> None:
        self._dataset, self._set_threads = dataset, threads
        self._pid = os.getpid()  # of the process that has set them, or needs no setting: the rank

    def __len__(self) -> int:
        """Return the length of the dataset."""
        return len(self._dataset)

    def __getitem__(self, index: Any) -> Any:
        """Return an example of the dataset."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._set_threads()
        return self._dataset[index]
