"""Changes a rank's setting while it runs; loaded by ``sitecustomize.py``.

``TUNE_LIVE_FILE`` tells where the tool listens. Until the program's own loop turns there is
nothing but an import finder, which puts hooks on Chainer and PyTorch (``rank_live_hooks.py``).
``sys.modules["tune_rank_live"].agent()`` is for the programs that take part themselves. What is
done between two iterations is in ``rank_live_gate.py``.
"""

import _thread
import json
import os
import sys
import time

import rank_live_hooks
from rank_live_gate import Gate
from rank_live_knobs import Knobs

NAME = "tune_rank_live"
SESSION = "session"


class Agent:
    """Counts iterations from 1, in the one thread that runs them.

    Args:
        gate: What is done at a boundary.
        knobs: What can be changed here.
    """

    def __init__(self, gate, knobs):
        self._gate, self._knobs = gate, knobs
        self._pid, self._thread = os.getpid(), None
        self._hook = None
        self._marked = False
        self._iteration, self._since_s = 1, None

    # --- for the program -----------------------------------------------------------------

    @property
    def passive(self):
        """True if nothing will be changed any more, as in a forked child."""
        return self._gate.passive or os.getpid() != self._pid

    def offer(self, knob, apply, read=None, settle=None):
        """Let a knob of the program be changed; later than the first boundary is too late.

        Args:
            knob: Its name in the study.
            apply: Called with a value at an iteration boundary, on every rank. For "as the job
                started" that is what `read` gave at the first boundary, without `read` None.
            read: Gives the value that is in force.
            settle: Called once after every `apply` of a change, for knobs that are brought into
                force together.
        """
        self._knobs.offer(knob, apply, read, settle)

    def step(self, mark=False):
        """An iteration has ended; from the first call on the automatic hooks are off.

        Args:
            mark: It is not like the others, for an epoch's start or an evaluation in it.
        """
        if self.passive or self._in_another_thread():
            return
        self._marked = self._marked or mark
        if self._hook != SESSION:
            self._hook = SESSION
            if self._gate.begun:  # the hooks have counted until here
                self._since_s = time.monotonic()
                return
            self._iteration, self._since_s = 1, None
        self._tick(2)

    def more(self):
        """True while the tool is there, which ends the job itself: alike on all ranks.

        If that is not known yet, its first order is waited for. If the tool wants to know the
        program's own end, it is True only after :meth:`over`.
        """
        gate = self._gate
        if not gate.whole:
            self._wait(gate.wait)
        return gate.met and not self.passive

    def over(self):
        """The program is at its own end, and has logged what it logs: every rank says so."""
        self._wait(self._gate.over)

    def _wait(self, wait):
        if self._gate.begun and not self._gate.met and not self.passive:
            wait()
            self._since_s = time.monotonic()

    # --- for the hooks -------------------------------------------------------------------

    @property
    def idle(self):
        """True if a hook has nothing to tell."""
        return self._hook == SESSION or self.passive or self._in_another_thread()

    def mark(self):
        """The iteration that runs, or else the next, is not like the others."""
        self._marked = True

    def evaluated(self, hook, elapsed_s):
        """An evaluation has ended: it counts to the iteration before, and the next is marked."""
        if self._hook == hook and not self.idle:
            self._gate.lengthen(elapsed_s)
        self._marked = True

    def begins(self, hook):
        """An iteration begins. The first one shows whether the program calls :meth:`step`."""
        if self._counts(hook) and self._iteration >= 2:
            self._gate.boundary(self._iteration, self._hook)

    def ran(self, hook, elapsed_s, mark):
        """The iteration that began has ended."""
        if self._hook == hook:
            self._marked = self._marked or mark
            self._ended(elapsed_s)

    def stepped(self, hook):
        """An iteration has ended and the next begins."""
        if self._counts(hook):
            self._tick(3)

    def _counts(self, hook):
        """Whether this hook counts the iterations: the first that was heard of does."""
        if self._hook is None:
            self._hook = hook
        return self._hook == hook

    def _in_another_thread(self):
        if self._thread is None:
            self._thread = _thread.get_ident()
        return self._thread != _thread.get_ident()

    # --- iterations ----------------------------------------------------------------------

    def _tick(self, first):
        """One iteration ends here and the next begins; the boundary before `first` is let pass."""
        now_s = time.monotonic()
        self._ended(0.0 if self._since_s is None else now_s - self._since_s)
        if self._iteration >= first:
            self._gate.boundary(self._iteration, self._hook)
        self._since_s = time.monotonic()

    def _ended(self, elapsed_s):
        self._gate.ended(elapsed_s, self._marked)
        self._marked = False
        self._iteration += 1


_agent = None


def agent():
    """The :class:`Agent` of this rank; None in its forked children and once it is passive."""
    return None if _agent is None or _agent.passive else _agent


def start(path, rank, size):
    """Make this process ready to be changed by the tool of the launch whose file this is."""
    global _agent  # noqa: PLW0603 - one a process
    with open(path) as file:  # now: it is gone once all ranks have come
        place = json.load(file)
    knobs = Knobs()
    _agent = Agent(Gate(place, rank, size, knobs), knobs)
    sys.modules[NAME] = sys.modules[__name__]
    rank_live_hooks.install(_agent)
