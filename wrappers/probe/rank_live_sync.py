"""What the ranks do between two iterations: meet once, then poll, and apply switches.

Rank 0 names each poll one poll ahead, so that all ranks hear of a change at the same iteration;
between two polls a rank does nothing. Nothing that goes wrong here reaches the program: the rank
closes its lines, which tells the others, and the job goes on as an ordinary one.
"""

import atexit
import os
import time

from rank_live_line import MOST, encoded, to_others, to_rank_0, to_tool

PROTOCOL = 2

#: How long all ranks are waited for at their first boundary.
MEETING_S = 30.0
#: Rank 0 may be busy alone for this long, with an evaluation for instance, or with a change.
SILENCE_S = 60.0

_IN_VAIN_S = 1.0  # who waits longer for what does not come has spoilt what the job's clock says
_IN_VAIN = "ranks-waited"  # the file beside the tool's socket that says so

_POLL_S = 0.1  # between two polls, as near as whole iterations allow
_PAUSE_S = 20.0  # at the program's own end; the other ranks wait longer for a poll
_MOST_STEPS = 1000  # between two polls: they must fit into a line

_END = "end"  # rank 0 to the others, which have not waited in vain


class SyncPoints:
    """The boundaries of one rank.

    Args:
        path: The tool's socket.
        rank: As the launcher says.
        size: How many ranks there are.
        knobs: What can be changed here.
        pauses: Whether the tool wants to know when the program is at its own end.
    """

    def __init__(self, path, rank, size, knobs, pauses=False):
        self._path, self._rank, self._size = path, rank, size
        self._knobs = knobs
        self._tool = None  # only at rank 0
        self._lines = []  # at rank 0 to the others, in their order; elsewhere to rank 0
        self._poll_at, self.pauses = 0, pauses
        self._in_vain = os.path.join(os.path.dirname(path), _IN_VAIN)
        self.met = self.passive = False

    def ended(self, elapsed_s, marked):
        """An iteration has ended: only rank 0 tells how long they take."""
        if self._tool is not None:
            self._tool.add(elapsed_s, marked)

    def lengthen(self, elapsed_s):
        """Something that is done now and then has followed the last iteration: it is marked."""
        if self._tool is not None:
            self._tool.lengthen(elapsed_s)

    def boundary(self, iteration, hook):
        """We are before this iteration."""
        if self.met and iteration < self._poll_at:
            return
        try:
            if self.met:
                self._poll(iteration)
            else:
                self._meet(iteration, hook)
        except Exception:  # whatever it is, the program must not see it
            self._end()

    def over(self):
        """The program is at its own end, and goes on: rank 0 says so, and waits for the answer."""
        if self._tool is not None:
            try:
                self._tool.over()
            except Exception:  # the next poll finds it too, at the same iteration in all ranks
                pass

    # --- the meeting ---------------------------------------------------------------------

    def _meet(self, iteration, hook):
        """All ranks take part, or none: rank 0 says so to all when they have come."""
        _at_exit(self._exit)
        if os.path.exists(self._in_vain):
            raise TimeoutError  # the others have given up
        can = self._knobs.begin()
        if self._rank:
            self._lines = [self._waited(lambda: to_rank_0(self._path, MEETING_S))]
            self._lines[0].send({"rank": self._rank, "can": list(can)})
            if self._waited(self._lines[0].receive, SILENCE_S) == _END:
                raise ConnectionError
        else:
            for name in set(can) - self._waited(self._common, set(can)):
                del can[name]
            self._tool = Tool(to_tool(self._path))
            self._tool.hello(self._size, hook, can, iteration)
            self._tell("go")
        self._poll_at = iteration + 1
        self.met = True

    def _common(self, can):
        """At rank 0: what all ranks can change, when they have come."""
        ranks = {}
        for line in to_others(self._path, self._size, MEETING_S) if self._size > 1 else ():
            self._lines.append(line)
            first = line.receive(SILENCE_S)
            ranks[first["rank"]] = line
            can = can.intersection(first["can"])
        self._lines = [ranks[rank] for rank in range(1, self._size)]
        return can

    # --- polls ---------------------------------------------------------------------------

    def _poll(self, iteration):
        if self._rank:
            order = self._waited(self._lines[0].receive, SILENCE_S)
        else:
            order = self._tool.poll(iteration)
            self._tell(order)
        if order == _END:
            raise ConnectionError
        self._poll_at = order["next"]
        if order["switch"] is not None:
            self._switch(iteration, order["switch"])

    def _switch(self, iteration, switch):
        begun_s = time.monotonic()
        errors = self._knobs.change(switch["values"])
        state = self._knobs.state(self._rank, errors)
        if self._rank:
            self._lines[0].send(state)
            return
        states = [state, *(self._waited(line.receive, SILENCE_S) for line in self._lines)]
        took_s = time.monotonic() - begun_s
        self._tool.switched(switch["number"], iteration, took_s, states)

    def _tell(self, message):
        for line in self._lines:
            line.send(message)

    def _waited(self, receive, *args):
        """What comes; if nothing does after a long time, the tool must know of it."""
        begun_s = time.monotonic()
        try:
            found = receive(*args)
            if found is None:
                raise TimeoutError
        except Exception:
            if time.monotonic() - begun_s > _IN_VAIN_S:
                os.close(os.open(self._in_vain, os.O_WRONLY | os.O_CREAT, 0o600))
            raise
        return found

    # --- the end -------------------------------------------------------------------------

    def _exit(self):
        """The process ends: nobody is to wait for it."""
        try:
            if self._tool is not None and not self.passive:
                self._tool.end()
        except Exception:  # it is gone
            pass
        self._close()

    def _end(self):
        """Take no more part, after whatever has failed here or in the tool."""
        try:
            if not self._rank:
                self._tell(_END)
        except Exception:  # that is what has failed
            pass
        self._close()

    def _close(self):
        self.passive = True
        for line in self._lines if self._tool is None else [*self._lines, self._tool]:
            line.close()


def _at_exit(end):
    pid = os.getpid()
    atexit.register(lambda: end() if os.getpid() == pid else None)


class Tool:
    """The tool, as rank 0 sees it through this line."""

    def __init__(self, line):
        self._line = line
        self._first, self._steps_s, self._marks = 0, [], []
        self._gap, self._polled_s = 1, None

    def hello(self, ranks, hook, can, iteration):
        """The first message: the ranks have met before this iteration."""
        self._first, self._polled_s = iteration, time.monotonic()
        message = {"type": "hello", "protocol": PROTOCOL, "pid": os.getpid(), "can": can}
        self._line.send(dict(message, hook=hook, iteration=iteration, ranks=ranks))

    def add(self, elapsed_s, marked):
        """An iteration has ended."""
        if marked:
            self._marks.append(self._first + len(self._steps_s))
        self._steps_s.append(elapsed_s)

    def lengthen(self, elapsed_s):
        """The last iteration took this much longer, and is not like the others."""
        if self._steps_s:
            self._steps_s[-1] += elapsed_s
            last = self._first + len(self._steps_s) - 1
            if last not in self._marks[-1:]:
                self._marks.append(last)

    def poll(self, iteration):
        """Tell the steps since the last poll, and take the next order.

        Returns:
            For all ranks: the iteration of the ``next`` poll, and the ``switch`` or None.
        """
        self._tell_steps()
        switch, message = None, self._line.receive()
        while message is not None and switch is None:
            known = isinstance(message, dict) and message.get("type") == "switch"
            if known and isinstance(message.get("values"), dict):
                switch = {"number": message.get("number"), "values": message["values"]}
            else:  # of a later version
                message = self._line.receive()
        return {"next": iteration + self._next_gap(switch), "switch": switch}

    def _tell_steps(self):
        # Between two windows nobody reads, for seconds, and nobody misses them: do not wait there.
        if self._steps_s and self._line.takes_more():
            steps_s = [round(step_s, 7) for step_s in self._steps_s]
            self._line.send(
                {"type": "steps", "first": self._first, "s": steps_s, "marks": self._marks}
            )

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
        """All ranks have applied the order."""
        message = {"type": "switched", "number": number, "iteration": iteration}
        message.update(took_s=round(took_s, 6), ranks=ranks)
        for part in ("affinity", "pools"):  # of very many ranks the less important parts go
            if len(encoded(message)) > MOST:
                message["ranks"] = [dict(rank, **{part: []}) for rank in message["ranks"]]
        self._line.send(message)
        self._polled_s = time.monotonic()

    def over(self):
        """The program is at its own end: the tool reads what it has written, then asks."""
        self._line.send({"type": "over", "iterations": self._made()})
        self._line.wait(_PAUSE_S)

    def end(self):
        """The program ends: tell the last steps, and how many there were in all."""
        self._tell_steps()
        self._line.send({"type": "end", "iterations": self._made()})

    def _made(self):
        """How many iterations the program has made."""
        return max(0, self._first + len(self._steps_s) - 1)

    def close(self):
        """The tool sees that there is no more."""
        self._line.close()
