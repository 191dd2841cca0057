"""Where a rank stops for a change of its setting: all ranks before the same iteration.

The tool says "stop" to all. A thread in each rank answers which iteration runs, and closes a gate
at the next boundary. Once all have answered, the tool says "at": at one more than the latest of
these all stop, change, and go on. It is a thread, since a rank in the middle of an exchange cannot
answer while another waits for it at its gate. Between two orders a rank only compares two numbers.

Nothing that goes wrong here reaches the program: the connection is ended, which the tool sees, and
the job goes on as an ordinary one.
"""

import _thread
import atexit
import os
import sys

import rank_thread
from rank_live_line import to_tool

_NEVER = sys.maxsize  # an iteration
_STEPS_S = 0.1  # how often rank 0 tells of its iterations
_MOST_STEPS = 1000  # a message: they must fit into a line
_GATE_S = 30.0  # another rank may hold Python's lock for this long
_ORDER_S = 20.0  # at the program's own end the first one is waited for
_EXIT_S = 0.2  # the thread ends sooner


class Gate:
    """The iteration boundaries of one rank.

    `place` is what the file of the launch holds (``rank_live_line.py``), `knobs` what can be
    changed here, and `report` is called after each change. ``begun``: the first boundary has come,
    later ones may be stopped at. ``met``: there was an order, in all ranks at the same iteration.
    ``passive``: nothing will be changed any more.
    """

    def __init__(self, place, rank, size, knobs, report=lambda: None):
        self._place, self._rank, self._size = place, rank, size
        self._knobs, self._report = knobs, report
        self.begun = self.met = self.passive = False
        self._iteration, self._stop_at = 1, 0
        self._order = self._line = None
        self._closed = _thread.allocate_lock()  # held while the gate is
        self._asked = _thread.allocate_lock()  # held until there was an order
        self._asked.acquire()
        # Of rank 0: what the tool has not been told yet, from which iteration on.
        self._steps, self._first = None, 0
        self._telling = _thread.allocate_lock()

    # --- for the program's thread --------------------------------------------------------

    def ended(self, elapsed_s, marked):
        """Note that an iteration has ended: only rank 0 tells how long they take."""
        if self._steps is not None:
            self._steps.append((elapsed_s, marked))

    def boundary(self, iteration, hook):
        """Stop here if it is time to; the iteration of this number is the next."""
        self._iteration = iteration  # before the gate is looked at: see _follow()
        if iteration < self._stop_at:
            return
        try:
            if self.begun:
                self._stop(iteration)
            else:
                self._begin(iteration, hook)
        except Exception:  # whatever it is, the program must not see it
            self._end()

    def wait(self):
        """Wait for the first order, which tells if the program goes on beyond its own end."""
        self.met = self._asked.acquire(True, _ORDER_S)
        if not self.met:
            self._end()

    def leave(self):
        """Tell the last iterations: the process ends."""
        if os.getpid() == self._pid and not self.passive:
            try:
                self._tell_steps()
            except Exception:  # the tool is gone, or was never there
                pass
            self._end()
            self._thread.acquire(True, _EXIT_S)

    def _begin(self, iteration, hook):
        self.begun, self._stop_at = True, _NEVER
        hello = {"type": "hello", "rank": self._rank, "ranks": self._size, "hook": hook}
        hello["can"] = self._knobs.begin()
        if not self._rank:
            self._steps, self._first = [], iteration
        self._pid = os.getpid()
        self._thread = rank_thread.start(lambda: self._follow(hello))
        atexit.register(self.leave)

    def _stop(self, iteration):
        if not self._closed.acquire(True, _GATE_S):
            raise TimeoutError
        self._closed.release()
        if iteration < self._stop_at:  # another rank is further
            return
        self._stop_at, self.met = _NEVER, True
        errors = self._knobs.change(self._order)
        self._report()
        values = self._knobs.read(errors)
        state = {"type": "state", "rank": self._rank, "values": values, "errors": errors}
        self._tell_steps()
        self._line.send(state)

    # --- for the thread of ours ----------------------------------------------------------

    def _follow(self, hello):
        try:
            self._line = to_tool(self._place, hello)
            while not self.passive:
                order = self._line.receive(None if self._steps is None else _STEPS_S)
                if order is None:
                    self._tell_steps()
                elif order["type"] == "stop":
                    # Who does not see the closed gate has set the iteration that we read.
                    self._closed.acquire()
                    self._stop_at = 0
                    self._line.send({"type": "stopped", "iteration": self._iteration})
                    _free(self._asked)
                elif order["type"] == "at":
                    self._order, self._stop_at = dict(order["values"]), order["iteration"]
                    self._closed.release()
                else:
                    raise ValueError(order)
        finally:
            self._end()
            if self._line is not None:
                self._line.close()

    def _tell_steps(self):
        """Send the times of ended iterations; a tool that does not read misses them."""
        with self._telling:
            while self._steps:
                some = self._steps[:_MOST_STEPS]
                del self._steps[: len(some)]
                if self._line.takes_more():
                    marks = [n for n, (_, marked) in enumerate(some, self._first) if marked]
                    times_s = [round(step_s, 7) for step_s, _ in some]
                    message = {"type": "steps", "first": self._first, "s": times_s, "marks": marks}
                    self._line.send(message)
                self._first += len(some)

    # --- for both ------------------------------------------------------------------------

    def _end(self):
        """Take no more part, after whatever has failed here or in the tool."""
        self.passive, self._stop_at = True, _NEVER
        if self._line is not None:
            self._line.end()
        for lock in (self._closed, self._asked):
            _free(lock)


def _free(lock):
    try:
        lock.release()
    except RuntimeError:  # it is free
        pass
