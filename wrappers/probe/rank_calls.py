"""Which lines of a program's source call MPI by mpi4py, whose methods leave no frame.

It must run in the oldest Python a user may have: no annotations, nothing newer than 3.6.
"""

_MOST_SOURCE = 1 << 20  # bytes

_POINT = ("send", "bsend", "ssend", "rsend", "isend", "recv", "irecv", "mrecv", "sendrecv")
_COLLECTIVE = (
    "allreduce", "reduce", "bcast", "gather", "scatter", "allgather", "alltoall", "scan",
    "exscan", "barrier", "gatherv", "scatterv", "allgatherv", "alltoallv", "alltoallw",
    "reduce_scatter", "reduce_scatter_block",
)  # fmt: skip
_OTHERS = (
    "wait", "waitall", "waitany", "waitsome", "test", "testall", "probe", "sendrecv_replace",
    "neighbor_alltoall", "neighbor_allgather", "fence", "accumulate",
)  # fmt: skip
_LOWER = frozenset(_POINT + _COLLECTIVE + _OTHERS) | frozenset("i" + n for n in _COLLECTIVE)
#: As mpi4py writes the methods that take buffers; nobody else's are called so.
_UPPER = frozenset(name[0].upper() + name[1:] for name in _LOWER)
#: Others than communicators and requests have these as well …
_SHARED = frozenset((
    "reduce", "gather", "scatter", "scan", "send", "recv", "wait", "test", "probe", "accumulate",
    "fence",
))  # fmt: skip
#: … so they count by what a communicator or request is called.
_OWNERS = frozenset(("communicator", "world", "mpi", "cart", "req", "reqs", "request"))


def mpi_call(line):
    """The MPI method that a line of source calls, in small letters; None without one.

    For the source of a program that uses mpi4py: elsewhere a ``bcast`` may be something else.
    """
    for piece in line.partition("#")[0].split("(")[:-1]:
        owner, dot, name = piece.rpartition(".")
        name = name.strip()
        words = owner.lower().split()
        if not dot or not words:
            continue
        if name in _SHARED and not _is_owner(words[-1]):
            continue
        if name in _UPPER or name in _LOWER:
            return name.lower()
    return None


def _is_owner(word):
    """True for ``self.comm``, ``MPI.COMM_WORLD``, ``reqs[0]`` and the like."""
    for mark in "._[]()":
        word = word.replace(mark, " ")
    names = [name.rstrip("0123456789") for name in word.split()]
    return any(name in _OWNERS or name.endswith("comm") for name in names)


def mpi_lines(filename):
    """The lines of a source file that call MPI, each with the method."""
    try:
        with open(filename, "rb") as file:  # noqa: PTH123
            lines = file.read(_MOST_SOURCE).decode("utf-8", "replace").split("\n")
    except (OSError, ValueError):
        return {}
    calls = ((number, mpi_call(line)) for number, line in enumerate(lines, 1) if "(" in line)
    return {number: name for number, name in calls if name}
