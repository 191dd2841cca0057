"""Worker processes of loaders: none is left of an old loader, and OpenCV's threads in new ones."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

#: What OpenCV reads when it is loaded.
VARIABLE = "OPENCV_FOR_THREADS_NUM"


class Workers:
    """The worker processes of one loader, by what its start adds to this process's children."""

    def __init__(self) -> None:
        self._alive: set[BaseProcess] = set()

    @contextmanager
    def starting(self) -> Iterator[None]:
        """While a loader starts; what a start that fails leaves behind is ended.

        A forked child has none of OpenCV's threads, but OpenCV 5.0 believes it has, and waits for
        them for ever once their number is set. With one thread it has none.
        """
        before = children()
        number = opencv_threads()
        if number is not None:
            sys.modules["cv2"].setNumThreads(1)
        try:
            yield
        except BaseException as error:
            from traceback import clear_frames  # here: for programs that change nothing

            clear_frames(error.__traceback__)  # a loader that has started by half ends itself
            end(children() - before)
            raise
        finally:
            if number is not None:
                sys.modules["cv2"].setNumThreads(number)
            self._alive |= children() - before

    def end(self) -> None:
        """End those that the loader's own shutdown has left."""
        end(self._alive)
        self._alive = set()


def children() -> set[BaseProcess]:
    """This process's living children of ``multiprocessing``."""
    from multiprocessing import active_children  # not at the top: for programs without loaders

    return set(active_children())


def end(processes: Iterable[BaseProcess]) -> None:
    """Kill and reap; none of them is alive afterwards."""
    processes = list(processes)
    for process in processes:
        process.kill()
    for process in processes:
        process.join()


def opencv_threads() -> int | None:
    """OpenCV's number of threads in this process; ``None`` where it is not loaded."""
    cv2 = sys.modules.get("cv2")
    return None if cv2 is None else int(cv2.getNumThreads())


class OpenCvThreads:
    """Sets OpenCV's threads in a worker, as the environment would: what the program sets wins.

    Args:
        number: How many; ``None`` leaves OpenCV alone.
    """

    def __init__(self, number: int | None) -> None:
        self._number = number
        self._owner = os.getpid()

    def __call__(self) -> None:
        """Set them, at the first call in a worker. In the rank itself nothing is set."""
        if self._number is None or os.getpid() == self._owner:
            return
        os.environ[VARIABLE] = str(self._number)  # where it is loaded later
        if "cv2" in sys.modules:
            sys.modules["cv2"].setNumThreads(self._number)


class FirstSet:
    """A worker's first call (of PyTorch's loader): OpenCV's threads, then the program's own.

    Args:
        threads: OpenCV's.
        then: The program's ``worker_init_fn``.
    """

    def __init__(self, threads: OpenCvThreads, then: Callable[[int], Any] | None) -> None:
        self._threads = threads
        self._then = then

    def __call__(self, worker: int) -> None:
        """In the worker of this number."""
        self._threads()
        if self._then is not None:
            self._then(worker)


class InWorkers:
    """A dataset in which a worker's first example sets OpenCV's threads (Chainer's loader)."""

    def __init__(self, dataset: Any, threads: OpenCvThreads) -> None:
        self._dataset = dataset
        self._threads = threads
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
