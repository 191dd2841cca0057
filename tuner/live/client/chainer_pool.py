"""The pool of worker processes behind Chainer's iterator: its start and its end wait for nobody."""

from __future__ import annotations

import sys
import threading
import time
from multiprocessing.pool import TERMINATE, Pool
from typing import Any

from tuner.live.client.loaders import end

#: So long what starts new workers may take to end, s. Nothing but a fork can be in its way.
_PATIENCE_S = 20.0

#: Between two looks at it, s.
_LOOK_S = 0.1

_HANDLERS = ("_worker_handler", "_task_handler", "_result_handler")


class WorkerPool(Pool):
    """A pool that leaves nothing and waits for nobody if its start fails.

    CPython's sends SIGTERM to the workers that it has and waits for them without limit. They have
    the program's handler of SIGTERM, and a process that has just been forked forgets a signal that
    has a handler. If a thread cannot start, the other threads replace the workers for good.
    """

    def __init__(self, *args: Any, **how: Any) -> None:
        try:
            super().__init__(*args, **how)
        except BaseException:
            end_pool(self)
            raise

    @staticmethod
    def Process(ctx: Any, *args: Any, **kwds: Any) -> Any:  # noqa: N802 -- CPython's name
        """A worker, not yet started."""
        worker = ctx.Process(*args, **kwds)
        worker.terminate = worker.kill
        return worker


def end_pool(pool: Any) -> None:
    """Kill the workers of a pool, also of one that has not started wholly.

    Unlike its own ``terminate`` this waits for no lock: a worker that was killed from outside may
    have taken one with it. Threads of the pool that wait for such a lock are left behind.

    Args:
        pool: Any pool of CPython's.
    """
    parts = vars(pool)
    handlers = [parts[name] for name in _HANDLERS if name in parts]
    end_s = time.monotonic() + _PATIENCE_S
    while handlers and time.monotonic() < end_s:
        for handler in handlers:
            handler._state = TERMINATE
        pool._cache.clear()  # no result is waited for: no worker is replaced
        pool._change_notifier.put(None)
        if not pool._worker_handler.is_alive():
            break
        pool._worker_handler.join(_LOOK_S)  # whoever uses the pool may close it meanwhile
    if "_terminate" in parts:
        pool._terminate.cancel()  # or the program's end would wait for those locks
    end(pool._pool)


def launch(loop: Any) -> None:
    """What the loop's own ``launch_thread`` does, with a pool whose start cannot hang."""
    loop._pool = WorkerPool(
        processes=loop.n_processes,
        initializer=sys.modules[type(loop).__module__]._fetch_setup,
        initargs=(loop.dataset, loop.mem_size, loop.mem_bulk),
        maxtasksperchild=loop.maxtasksperchild,
    )
    thread = threading.Thread(target=loop._run, name="prefetch_loop", daemon=True)
    thread.start()
    loop._thread = thread
