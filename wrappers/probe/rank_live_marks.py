"""What a rank leaves in the job's folder, for the others and for the supervisor: links, as to meet.

Not a message: who has ended sends none that is sure to come, and ``MPI_Finalize`` is near.
"""

import os


class RankStatus:
    """The links of one job, after its ranks have met.

    Args:
        path: The supervisor's socket, as for the meeting.
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

    def leave(self):
        """This rank takes no more part; the last one takes the links of all away."""
        self._make("left")
        places = [self._place("left", rank) for rank in range(self._size)]
        if all(os.path.lexists(place) for place in places):
            for place in places:
                try:  # noqa: SIM105
                    os.unlink(place)  # noqa: PTH108
                except OSError:  # there were two last ones
                    pass

    def has_left(self, rank):
        """Whether that rank takes no more part."""
        return os.path.lexists(self._place("left", rank))

    def waited_in_vain(self):
        """What this job's clock says is not to be used: the supervisor finds this link."""
        self._make("parted")

    def _make(self, what):
        try:  # noqa: SIM105
            os.symlink(what, self._place(what, self._rank))  # noqa: PTH211
        except OSError:  # made before, or the folder has been removed
            pass

    def _place(self, what, rank):
        return f"{self._folder}/{what}-{self._job}-{rank}"
