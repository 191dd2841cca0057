"""What the ranks do between two iterations: meet once, then poll, and apply switches.

Rank 0 names each poll one poll ahead, so that all ranks hear of a change at the same iteration;
between two polls a rank does nothing. Nothing that goes wrong here reaches the program: the rank
becomes passive, and the job goes on as an ordinary one.
"""

import atexit
import json
import os
import time

from rank_live_links import LIMIT_S, RankStatus, Rendezvous
from rank_live_report import Line, Report
from rank_live_transport import RefusedError

#: Rank 0 may be busy alone for so long, with an evaluation for instance; and so may a change take.
SILENCE_S = 60.0

_IN_VAIN_S = 1.0  # who waits longer for what does not come has spoilt what the job's clock says

_END = "null"  # rank 0 to the others, or one of them to it: no more


class SyncPoints:
    """The boundaries of one rank.

    Args:
        path: The tool's socket.
        rank: As the launcher says.
        knobs: What can be changed here.
        choose: Gives the transport between the ranks.
        pauses: Whether the tool wants to know when the program is at its own end.
    """

    def __init__(self, path, rank, knobs, choose, pauses=False):
        self._path, self._rank = path, rank
        self._knobs, self._choose = knobs, choose
        self._transport = self._report = self._rendezvous = self._status = None
        self._poll_at, self.pauses = 0, pauses
        self.passive = False

    @property
    def met(self):
        """Whether the ranks have met."""
        return self._transport is not None

    def ended(self, elapsed_s, marked):
        """An iteration has ended: only rank 0 tells how long they take."""
        if self._report is not None:
            self._report.add(elapsed_s, marked)

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
            self._fail()

    # --- the meeting ---------------------------------------------------------------------

    def _meet(self, iteration, hook):
        transport = self._chosen()
        if transport is None or not self._agreed(transport):
            self._end()
            return
        self._status = RankStatus(self._path, self._rank, transport.size)
        transport.open(self._status.has_left)
        self._transport = transport
        _at_exit(self._exit)
        can = self._knobs.begin()
        if self._rank:
            transport.answer(_text(sorted(can)))
        else:
            others = self._collected()
            can = {name: value for name, value in can.items() if all(name in o for o in others)}
            if self._rendezvous is not None:  # all have come further
                self._rendezvous.clear()
            self._report.hello(transport, hook, can, iteration)
        self._poll_at = iteration + 1

    def _chosen(self):
        """The transport; without one rank 0 says why."""
        try:
            return self._choose(self._rank)
        except RefusedError as error:
            if not self._rank and self._connected():
                self._report.refuse(str(error))
            return None

    def _agreed(self, transport):
        if transport.size == 1:
            return self._connected()
        self._rendezvous = Rendezvous(self._path, self._rank, transport.size)
        return self._rendezvous.agreed(transport.name, self._connected, LIMIT_S)

    def _connected(self):
        """At rank 0: whether the tool listens."""
        try:
            self._report = Report(Line(self._path))
        except OSError:
            return False
        return True

    # --- polls ---------------------------------------------------------------------------

    def _poll(self, iteration):
        if self._rank:
            text = self._waited(self._transport.hear)
        else:
            text = _text(self._report.poll(iteration))
            self._transport.tell(text)
        order = json.loads(text)
        if order is None:
            self._end()
            return
        self._poll_at = order["next"]
        if order["switch"] is not None:
            self._switch(iteration, order["switch"])

    def _switch(self, iteration, switch):
        begun_s = time.monotonic()
        errors = self._knobs.change(switch["values"])
        state = self._knobs.state(self._rank, errors)
        if self._rank:
            self._transport.answer(_text(state))
            return
        others = self._collected()
        took_s = time.monotonic() - begun_s
        self._report.switched(switch["number"], iteration, took_s, [state, *others])

    def _collected(self):
        return [json.loads(text) for text in self._waited(self._transport.collect)]

    def _waited(self, receive):
        """What comes; if nothing does after a long time, the tool must know of it."""
        begun_s = time.monotonic()
        try:
            return receive(SILENCE_S)
        except Exception:
            if time.monotonic() - begun_s > _IN_VAIN_S:
                self._status.waited_in_vain()
            raise

    # --- the end -------------------------------------------------------------------------

    def over(self):
        """The program is at its own end, and goes on: rank 0 says so, and waits for the answer."""
        try:
            if self._report is not None:
                self._report.over()
        except Exception:  # as at a boundary
            self._fail()

    def _fail(self):
        """Tell the others, who hear of it when they next listen, and be passive."""
        try:
            if self._rank:
                self._transport.answer(_END)
            else:
                self._transport.tell(_END)
        except Exception:  # there is no transport, or that is what has failed
            pass
        self._end()

    def _exit(self):
        """The process ends: nobody is to wait for it."""
        if self._report is not None:
            self._report.end()
        self._end()

    def _end(self):
        if self._status is not None and not self.passive:
            self._status.leave()
        self.passive = True
        if self._report is not None:
            self._report.close()


def _text(message):
    return json.dumps(message, default=str)


def _at_exit(end):
    pid = os.getpid()
    atexit.register(lambda: end() if os.getpid() == pid else None)
