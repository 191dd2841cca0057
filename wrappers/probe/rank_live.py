"""Changes a rank's setting while it runs; loaded by ``sitecustomize.py``.

``TUNE_LIVE_FILE`` tells where the tool listens. Until the program's own loop begins there is
nothing but an import finder, which puts hooks on Chainer and PyTorch (``rank_live_hooks.py``).
``sys.modules["tune_rank_live"].agent()`` is for the programs that take part themselves. What
happens between two iterations is in ``rank_live_gate.py``.
"""

import _thread
import json
import os
import sys
import time

import rank_live_hooks
import rank_report
from rank_live_gate import Gate
from rank_live_knobs import Knobs

NAME = "tune_rank_live"
SESSION = "session"


class Agent:
    """Counts iterations from 1, in the one thread that runs them, and stops at the gate."""

    def __init__(self, gate, knobs):
        self._gate, self._knobs = gate, knobs
        self._pid, self._thread = os.getpid(), None
        self._hook = None  # which one counts the iterations; SESSION: the program itself
        self._is_marked = False
        self._iteration, self._began_s = 1, None  # the one under way, and when it began

    # --- for the program -----------------------------------------------------------------

    @property
    def passive(self):
        """True if nothing will be changed any more, as in a forked child."""
        return self._gate.passive or os.getpid() != self._pid

    def offer(self, names, apply, read=None):
        """Let some knobs of the program be changed; after the first boundary it is too late.

        At a boundary, the same on every rank, `apply` gets the values that change, by name. For "as
        the job started" these are what `read` gave at the first boundary, or None without `read`.
        """
        self._knobs.offer(names, apply, read)

    def step(self, mark=False):
        """Note that an iteration has ended; from the first call on the hooks are off.

        A `mark` says that it is not like the others: an epoch has started in it, for instance.
        """
        if self.passive or self._is_other_thread():
            return
        self._is_marked = self._is_marked or mark
        if self._hook != SESSION:
            self._hook = SESSION
            if self._gate.has_begun:  # the hooks have counted until here
                self._began_s = time.monotonic()
                return
            self._iteration, self._began_s = 1, None
        self._tick(first_boundary=2)

    def more(self):
        """Return True while the tool is there, which ends the job itself: alike on all ranks.

        Before the first order of the tool this waits for it. A job of the user's ends by itself.
        """
        if not self._gate.extends:
            return False
        if self._gate.has_begun and not self._gate.was_ordered and not self.passive:
            self._gate.wait()
            self._began_s = time.monotonic()
        return self._gate.was_ordered and not self.passive

    # --- for the hooks -------------------------------------------------------------------

    @property
    def idle(self):
        """True if a hook has nothing to tell."""
        return self._hook == SESSION or self.passive or self._is_other_thread()

    def mark(self):
        """Note that the iteration that runs is not like the others."""
        self._is_marked = True

    def iteration_begins(self, hook):
        """Note that an iteration begins; in the first one the program may still call `step`."""
        if self._is_counting(hook) and self._iteration >= 2:
            self._gate.boundary(self._iteration, self._hook)

    def iteration_ended(self, hook, elapsed_s):
        """Note that the iteration that began has ended."""
        if self._hook == hook:
            self._count(elapsed_s)

    def iteration_passed(self, hook):
        """Note that an iteration has ended and the next begins."""
        if self._is_counting(hook):
            self._tick(first_boundary=3)  # the program's first `step` comes after the first call

    def _is_counting(self, hook):
        """Return whether this hook counts the iterations: the first that was called does."""
        self._hook = self._hook or hook
        return self._hook == hook

    def _is_other_thread(self):
        self._thread = self._thread or _thread.get_ident()
        return self._thread != _thread.get_ident()

    def _tick(self, first_boundary):
        """End an iteration and begin the next; nothing changes before the first boundary."""
        now_s = time.monotonic()
        self._count(0.0 if self._began_s is None else now_s - self._began_s)
        if self._iteration >= first_boundary:
            self._gate.boundary(self._iteration, self._hook)
        self._began_s = time.monotonic()

    def _count(self, elapsed_s):
        self._gate.note_iteration(elapsed_s, self._is_marked)
        self._is_marked = False
        self._iteration += 1


_agent = None


def agent():
    """Return the :class:`Agent` of this rank; None in its forked children and once passive."""
    return None if _agent is None or _agent.passive else _agent


def start(path, rank, size):
    """Make this process ready to be changed by the tool of the launch whose file this is."""
    global _agent  # noqa: PLW0603 - one a process
    with open(path) as file:  # at once: the tool removes it when all ranks have connected
        place = json.load(file)
    knobs, folder = Knobs(), os.environ.get("TUNE_PROBE_DIR")

    def report():
        try:
            if folder:
                rank_report.write(folder, rank, size)
        except OSError:  # nowhere to report
            pass

    _agent = Agent(Gate(place, rank, size, knobs, report), knobs)
    sys.modules[NAME] = sys.modules[__name__]
    rank_live_hooks.install(_agent)
