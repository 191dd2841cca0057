"""Stops a rank for a change of its setting: all ranks before the same iteration.

The tool says "stop" to all. A thread in each rank answers which iteration runs, and closes a gate
at the next boundary. Once all have answered, the tool says "at": at one more than the latest of
these iterations all stop, change, and go on. It is a thread that answers, since a rank in an
exchange cannot, while another one waits at its gate. Between orders a rank only compares numbers.

Nothing that goes wrong here reaches the program: the connection is ended, which the tool sees, and
the job goes on as an ordinary one.
"""

import _thread
import atexit
import os
import sys

import rank_thread
from rank_live_line import to_tool

_NEVER = sys.maxsize  # an iteration that does not come
_STEPS_S = 0.1  # how often rank 0 tells of its iterations
_MOST_STEPS = 1000  # iterations in a message, which must fit into a line
_GATE_S = 30.0  # a rank waits for the others: one may hold Python's lock, and cannot answer
_ORDER_S = 20.0  # the program waits for its first order at its own end
_EXIT_S = 0.2  # the program waits for the thread at its exit


class Gate:
    """The iteration boundaries of one rank.

    `place` is what the file of the launch holds (``rank_live_line.py``), `knobs` what can be
    changed in this rank, and `report` is called after each change. ``has_begun``: the first
    boundary has come, and the rank may stop at later ones. ``was_ordered``: there was an order, in
    all ranks at the same iteration. ``passive``: nothing will be changed any more. ``extends``: the
    job goes on beyond its own end as long as the tool is there.
    """

    def __init__(self, place, rank, size, knobs, report=lambda: None):
        self._place, self._rank, self._size = place, rank, size
        self.extends = place.get("extends", True)
        self._knobs, self._report = knobs, report
        self.has_begun = self.was_ordered = self.passive = False
        self._iteration, self._stop_at = 1, 0
        self._order = self._line = None
        self._closed = _thread.allocate_lock()  # held while the gate is closed
        self._no_order = _thread.allocate_lock()  # held until there was an order
        self._no_order.acquire()
        # Of rank 0: the iterations that the tool has not been told yet, and the first one's number.
        self._untold, self._first_untold = None, 0
        self._telling = _thread.allocate_lock()  # held while they are sent

    # --- for the program's thread --------------------------------------------------------

    def note_iteration(self, elapsed_s, is_marked):
        """Note that an iteration has ended: only rank 0 tells how long iterations take."""
        if self._untold is not None:
            self._untold.append((elapsed_s, is_marked))

    def boundary(self, iteration, hook):
        """Stop if it is time to, before the iteration of this number."""
        self._iteration = iteration  # before the gate is looked at: see _follow()
        if iteration < self._stop_at:
            return
        try:
            if self.has_begun:
                self._stop(iteration)
            else:
                self._begin(iteration, hook)
        except Exception:  # whatever it is, the program must not see it
            self._end()

    def wait(self):
        """Wait for the first order, which tells if the program goes on beyond its own end."""
        self.was_ordered = self._no_order.acquire(True, _ORDER_S)
        if not self.was_ordered:
            self._end()

    def leave(self):
        """Tell the last iterations and end the connection: the process ends."""
        if os.getpid() == self._pid and not self.passive:
            try:
                self._tell_steps()
            except Exception:  # the tool is gone, or was never there
                pass
            self._end()
            self._thread.acquire(True, _EXIT_S)

    def _begin(self, iteration, hook):
        self.has_begun, self._stop_at = True, _NEVER
        hello = {"type": "hello", "rank": self._rank, "ranks": self._size, "hook": hook}
        hello["can"] = self._knobs.begin()
        if self._rank == 0:
            self._untold, self._first_untold = [], iteration
        self._pid = os.getpid()
        self._thread = rank_thread.start(lambda: self._follow(hello))
        atexit.register(self.leave)

    def _stop(self, iteration):
        if not self._closed.acquire(True, _GATE_S):
            raise TimeoutError
        self._closed.release()
        if iteration < self._stop_at:  # another rank is further: the change comes later
            return
        self._stop_at, self.was_ordered = _NEVER, True
        errors = self._knobs.change(self._order)
        self._report()
        values = self._knobs.read(errors)
        state = {"type": "state", "rank": self._rank, "values": values, "errors": errors}
        self._tell_steps()
        self._line.send(state)

    # --- for the gate's own thread -------------------------------------------------------

    def _follow(self, hello):
        try:
            self._line = to_tool(self._place, hello)
            while not self.passive:
                order = self._line.receive(None if self._untold is None else _STEPS_S)
                if order is None:
                    self._tell_steps()
                elif order["type"] == "stop":
                    # A program that does not see the closed gate has set the number read here.
                    self._closed.acquire()
                    self._stop_at = 0
                    self._line.send({"type": "stopped", "iteration": self._iteration})
                    _free(self._no_order)
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
            while self._untold:
                steps, first = self._untold[:_MOST_STEPS], self._first_untold
                del self._untold[: len(steps)]
                if self._line.takes_more():
                    marks = [n for n, (_, is_marked) in enumerate(steps, first) if is_marked]
                    times_s = [round(time_s, 7) for time_s, _ in steps]
                    message = {"type": "steps", "first": first, "s": times_s, "marks": marks}
                    self._line.send(message)
                self._first_untold += len(steps)

    # --- for both ------------------------------------------------------------------------

    def _end(self):
        """Take no more part: something has failed here or in the tool, or the process ends."""
        self.passive, self._stop_at = True, _NEVER
        if self._line is not None:
            self._line.end()
        for lock in (self._closed, self._no_order):
            _free(lock)


def _free(lock):
    try:
        lock.release()
    except RuntimeError:  # it is free
        pass
