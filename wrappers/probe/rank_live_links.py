"""Links by which the ranks of a job agree to take part, and say that they take no more part.

They lie beside the tool's socket, whose inode and time tell this job from others in the folder. A
link is made at once with its text, and by one process only.
"""

import os
import time

LIMIT_S = 30.0

_PAUSE_S = 0.005


class _Links:
    """The links of one job.

    Args:
        path: The tool's socket.
        rank: Of this process.
        size: How many ranks there are.

    Raises:
        OSError: There is no such socket.
    """

    def __init__(self, path, rank, size):
        socket = os.stat(path)  # noqa: PTH116
        self._folder = os.path.dirname(path)  # noqa: PTH120
        self._job = f"{socket.st_ino}-{socket.st_mtime_ns}"
        self._rank, self._size = rank, size

    def _place(self, what, of):
        return f"{self._folder}/{what}-{self._job}-{of}"

    def _all(self, what):
        return [self._place(what, rank) for rank in range(self._size)]


class Rendezvous(_Links):
    """All ranks agree, once, whether they take part.

    A collective call of MPI that some rank never makes cannot be taken back, and shifts all that
    the program calls later. So nothing of MPI is called before each rank has said that it is at
    its first boundary. The first to make the verdict decides for all, be it rank 0 because all
    are there, or whoever has waited too long.
    """

    def agreed(self, word, ready, limit_s=LIMIT_S):
        """True on every rank or on none.

        Args:
            word: What all of them must say alike.
            ready: Called by rank 0 when all are there: whether it can begin.
            limit_s: How long the others are waited for.

        Raises:
            OSError: No link can be made beside the socket.
        """
        os.symlink(word, self._place("meeting", self._rank))  # noqa: PTH211
        verdict_at, end_s = self._place("meeting", "verdict"), time.monotonic() + limit_s
        while True:
            verdict = _read(verdict_at)
            if verdict is not None:
                return verdict == "go"
            words = [] if self._rank else [_read(place) for place in self._all("meeting")]
            if words and None not in words:
                _make("go" if set(words) == {word} and ready() else "no", verdict_at)
            elif time.monotonic() >= end_s:
                _make("no", verdict_at)
                if not os.path.isdir(self._folder):  # noqa: PTH112
                    return False  # nobody can make a verdict any more
            time.sleep(_PAUSE_S)

    def clear(self):
        """Remove the links, when every rank has read the verdict."""
        _remove([self._place("meeting", "verdict"), *self._all("meeting")])


class RankStatus(_Links):
    """What a rank leaves for the others and for the tool, after the ranks have met.

    Not a message: who has ended sends none that is sure to come, and ``MPI_Finalize`` is near.
    """

    def leave(self):
        """This rank takes no more part; the last one removes the links of all."""
        _make("left", self._place("left", self._rank))
        if all(os.path.lexists(place) for place in self._all("left")):
            _remove(self._all("left"))

    def has_left(self, rank):
        """Whether that rank takes no more part."""
        return os.path.lexists(self._place("left", rank))

    def waited_in_vain(self):
        """The clock of this job is no measure: the tool finds this link."""
        _make("parted", self._place("parted", self._rank))


def _read(place):
    try:
        return os.readlink(place)  # noqa: PTH115
    except FileNotFoundError:
        return None


def _make(word, place):
    try:  # noqa: SIM105
        os.symlink(word, place)  # noqa: PTH211
    except OSError:  # somebody was faster: theirs holds; or the folder has been removed
        pass


def _remove(places):
    for place in places:
        try:  # noqa: SIM105
            os.unlink(place)  # noqa: PTH108
        except OSError:
            pass
