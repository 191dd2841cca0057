"""The agent of a rank: what its program and the hooks talk to. It counts and times iterations.

What is done between two of them is in ``rank_live_polls.py``.
"""

import _thread
import os
import time

SESSION = "session"


class Agent:
    """Counts iterations from 1, in the one thread that runs them.

    Args:
        polls: What is done at a boundary.
        knobs: What can be changed here.
    """

    def __init__(self, polls, knobs):
        self._polls, self._knobs = polls, knobs
        self._pid, self._thread = os.getpid(), None
        self._hook = None
        self._marked = False
        self._iteration, self._since_s = 1, None
        self._over = False  # whether the supervisor knows of the program's own end

    # --- for the program -----------------------------------------------------------------

    @property
    def passive(self):
        """True where nothing will be changed any more: also in a forked child."""
        return self._polls.passive or os.getpid() != self._pid

    def offer(self, knob, apply, read=None, settle=None):
        """Let a knob of the program be changed; what comes after the first boundary is not told.

        Args:
            knob: Its name in the study.
            apply: Called with a value at an iteration boundary, on every rank. For "as the job
                started" that is what `read` gave at the first boundary, without `read` None.
            read: Gives the value that is in force.
            settle: Called once behind every `apply` of a change, where knobs share it: what they
                come to together is done there.
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
            if self._polls.met:  # the hooks have counted until here
                self._since_s = time.monotonic()
                return
            self._iteration, self._since_s = 1, None
        self._tick(2)

    def more(self):
        """True while a supervisor is there, which ends the job itself: alike on all ranks.

        Where it wants to know the program's own end, only behind :meth:`over`.
        """
        told = self._over or not self._polls.pauses
        return told and self._polls.met and not self.passive

    def over(self):
        """The program is at its own end, and has logged what it logs: every rank says so."""
        if self._polls.pauses and self._polls.met and not self.passive and not self._over:
            self._over = True
            self._polls.over()
            self._since_s = time.monotonic()

    # --- for the hooks -------------------------------------------------------------------

    @property
    def idle(self):
        """True where a hook has nothing to tell."""
        return self._hook == SESSION or self.passive or self._in_another_thread()

    def mark(self):
        """The iteration that runs, or else the next, is not like the others."""
        self._marked = True

    def begins(self, hook):
        """An iteration begins. The first one shows whether the program calls :meth:`step`."""
        if self._counts(hook) and self._iteration >= 2:
            self._boundary()

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
            self._boundary()
        self._since_s = time.monotonic()

    def _ended(self, elapsed_s):
        self._polls.ended(elapsed_s, self._marked)
        self._marked = False
        self._iteration += 1

    def _boundary(self):
        self._polls.boundary(self._iteration, self._hook)
