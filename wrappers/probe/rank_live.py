"""Changes a rank's setting while it runs; loaded by ``sitecustomize.py`` only where that is asked.

``TUNE_LIVE_SOCKET`` names the socket of the supervisor. Until the program's own loop turns there
is nothing but an import finder, which puts hooks on Chainer and PyTorch (``rank_live_hooks.py``).
With ``TUNE_LIVE_PAUSE=1`` it says when the program is at its own end, and waits for the answer.
``sys.modules["tune_rank_live"].agent()`` is for the programs that take part themselves.

It must run in the oldest Python a user may have: no annotations, nothing newer than 3.6, and
nothing beside the standard library.
"""

import os
import sys

import rank_live_exchange
import rank_live_hooks
from rank_live_agent import Agent
from rank_live_knobs import Knobs
from rank_live_polls import Polls

NAME = "tune_rank_live"

_agent = None


def agent():
    """The :class:`Agent` of this rank; None in its forked children and once it is passive."""
    if _agent is None or _agent.passive:
        return None
    return _agent


def _is_worker():
    """True in the processes that ``multiprocessing`` starts anew."""
    with open("/proc/self/cmdline", "rb") as file:  # noqa: PTH123
        return b"from multiprocessing." in file.read()


def start(path, rank):
    """Make this process ready to be changed by the supervisor that listens at `path`."""
    global _agent  # noqa: PLW0603 - one a process
    if _is_worker():
        return
    path, knobs = os.path.abspath(path), Knobs()  # noqa: PTH100 - the program may change folders
    pauses = os.environ.get("TUNE_LIVE_PAUSE") == "1"
    _agent = Agent(Polls(path, rank, knobs, rank_live_exchange.choose, pauses), knobs)
    sys.modules[NAME] = sys.modules[__name__]
    rank_live_hooks.install(_agent)
