"""All ranks agree, once, whether they take part: by links in the folder of the supervisor's socket.

A collective call of MPI that some rank never makes cannot be taken back, and shifts all that
the program calls later. So nothing of MPI is called before each rank has said that it is at its
first boundary. A link is made at once with its text, and by one process only: the first to make
the verdict decides for all, be it rank 0 because all are there, or whoever has waited too long.
"""

import os
import time

LIMIT_S = 30.0

_PAUSE_S = 0.005


class Rendezvous:
    """The links of one job.

    Args:
        path: The supervisor's socket: its inode and time tell this job from others in the folder.
        rank: Of this process.
        size: How many ranks must come.
        word: What all of them must say alike.

    Raises:
        OSError: There is no such socket, or no link can be made beside it.
    """

    def __init__(self, path, rank, size, word):
        socket = os.stat(path)  # noqa: PTH116
        folder = os.path.dirname(path)  # noqa: PTH120
        self._base = f"{folder}/meeting-{socket.st_ino}-{socket.st_mtime_ns}"
        self._rank, self._size, self._word = rank, size, word
        self._verdict = self._base + "-verdict"

    def agreed(self, ready, limit_s=LIMIT_S, clock=time.monotonic, sleep=time.sleep):
        """True on every rank or on none.

        Args:
            ready: Called by rank 0 when all are there: whether it can begin.
            limit_s: How long the others are waited for.
        """
        os.symlink(self._word, self._place(self._rank))  # noqa: PTH211
        end_s = clock() + limit_s
        while True:
            verdict = _read(self._verdict)
            if verdict is not None:
                return verdict == "go"
            words = [] if self._rank else self._words()
            if words and None not in words:
                self._decide(all(word == self._word for word in words) and ready())
            elif clock() >= end_s:
                self._decide(False)
            else:
                sleep(_PAUSE_S)

    def clear(self):
        """Remove the links, when every rank has read the verdict."""
        for path in [self._verdict] + [self._place(rank) for rank in range(self._size)]:
            try:  # noqa: SIM105
                os.unlink(path)  # noqa: PTH108
            except OSError:
                pass

    def _words(self):
        return [_read(self._place(rank)) for rank in range(self._size)]

    def _place(self, rank):
        return f"{self._base}-{rank}"

    def _decide(self, go):
        try:  # noqa: SIM105
            os.symlink("go" if go else "no", self._verdict)  # noqa: PTH211
        except FileExistsError:  # somebody was faster: theirs holds
            pass


def _read(path):
    try:
        return os.readlink(path)  # noqa: PTH115
    except FileNotFoundError:
        return None
