"""What rank 0 tells the supervisor and hears from it."""

import contextlib
import os
import time

from rank_live_line import LostError

PROTOCOL = 1

_POLL_S = 0.1  # between two polls, as near as whole iterations allow
_PAUSE_S = 20.0  # at the program's own end; the other ranks wait longer for a poll
_MOST_STEPS = 1000  # between two polls: they must fit into a line


class Report:
    """The supervisor, as rank 0 sees it.

    Args:
        line: The connection.
    """

    def __init__(self, line):
        self._line = line
        self._first, self._steps_s, self._marks = 0, [], []
        self._gap, self._polled_s = 1, None

    def hello(self, exchange, hook, can, iteration):
        """The first message: the ranks have met before this iteration."""
        self._first, self._polled_s = iteration, time.monotonic()
        self._line.send(
            {
                "type": "hello",
                "protocol": PROTOCOL,
                "ranks": exchange.size,
                "pid": os.getpid(),
                "hook": hook,
                "exchange": exchange.name,
                "can": can,
                "iteration": iteration,
            }
        )

    def refuse(self, why):
        """In place of a hello: the ranks take no orders."""
        self._line.send({"type": "refused", "why": why})

    def add(self, elapsed_s, marked):
        """An iteration has ended."""
        if marked:
            self._marks.append(self._first + len(self._steps_s))
        self._steps_s.append(elapsed_s)

    def poll(self, iteration):
        """Tell the steps since the last poll, and hear what is asked.

        Returns:
            For all ranks: the iteration of the ``next`` poll, and the ``switch`` or None. None
            where the supervisor is gone.
        """
        try:
            self._tell_steps()
            switch = self._asked()
        except LostError:
            return None
        return {"next": iteration + self._next_gap(switch), "switch": switch}

    def _tell_steps(self):
        # Between two windows nobody reads, for seconds, and nobody misses them: do not wait there.
        if self._steps_s and self._line.takes_more():
            steps_s = [round(step_s, 7) for step_s in self._steps_s]
            self._line.send(
                {"type": "steps", "first": self._first, "s": steps_s, "marks": self._marks}
            )

    def _asked(self):
        """The next switch that was asked for."""
        while True:
            message = self._line.receive()
            if message is None:
                return None
            if message.get("type") == "switch" and isinstance(message.get("values"), dict):
                return {"number": message.get("number"), "values": message["values"]}

    def _next_gap(self, switch):
        """Iterations until the next poll: at once after a switch, since nobody knows the pace."""
        now_s = time.monotonic()
        passed_s = now_s - self._polled_s
        number = max(1, len(self._steps_s))
        fitting = round(_POLL_S * number / passed_s) if passed_s > 0 else _MOST_STEPS
        self._gap = 1 if switch else max(1, min(2 * self._gap, fitting, _MOST_STEPS))
        self._first, self._steps_s, self._marks = self._first + len(self._steps_s), [], []
        self._polled_s = now_s
        return self._gap

    def switched(self, number, iteration, took_s, ranks):
        """All ranks have applied what was asked."""
        if any(rank is None for rank in ranks):
            raise LostError
        self._line.send_fitting(
            {
                "type": "switched",
                "number": number,
                "iteration": iteration,
                "took_s": round(took_s, 6),
                "ranks": ranks,
            }
        )
        self._polled_s = time.monotonic()

    def over(self):
        """The program is at its own end: the supervisor reads what it has written, then asks."""
        with contextlib.suppress(LostError):  # which the next poll finds too, and tells all ranks
            self._line.send({"type": "over", "iterations": self._made()})
            self._line.wait(_PAUSE_S)

    def end(self):
        """The program ends: tell the last steps, and how many there were in all."""
        with contextlib.suppress(LostError):
            self._tell_steps()
            self._line.send({"type": "end", "iterations": self._made()})
        self.close()

    def _made(self):
        """How many iterations the program has made."""
        return max(0, self._first + len(self._steps_s) - 1)

    def close(self):
        """The supervisor sees that there is no more."""
        self._line.close()
