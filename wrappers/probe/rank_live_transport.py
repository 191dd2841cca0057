"""How rank 0 tells the others and hears from them: by mpi4py or PyTorch's store.

Small texts only, from rank 0 to each rank and back, in order. Nothing here is a collective call
but the duplication of the communicator: a rank that has gone keeps nobody for ever.
"""

import sys
import time
from datetime import timedelta

import rank_report

_TAG = 1
_SPINS = 100  # looks before the first pause
_PAUSE_S = 1e-4
_LONGEST_PAUSE_S = 2e-3
_LOOK_S = 0.1  # between two looks whether the other rank has left
_LAST_S = 0.2  # what it said last may still be under way


class RefusedError(Exception):
    """The ranks of this program cannot be reached; why, in words."""


class SilentError(Exception):
    """A rank was not heard of within the limit, or has left."""


def _until(ready, limit_s, has_left):
    """Wait for ``ready()``: at once at first, then with growing pauses. The ranks share CPUs."""
    for _ in range(_SPINS):
        if ready():
            return
    begun_s, look_s = time.monotonic(), _LOOK_S
    while not ready():
        waited_s = time.monotonic() - begun_s
        if waited_s > limit_s:
            raise SilentError
        if waited_s >= look_s:
            look_s = waited_s + _LOOK_S
            if has_left():
                limit_s, look_s = min(limit_s, waited_s + _LAST_S), limit_s
        time.sleep(min(_LONGEST_PAUSE_S, max(_PAUSE_S, waited_s / 10)))


class Alone:
    """The only rank."""

    name, rank, size = "alone", 0, 1

    def open(self, _has_left):
        """Nothing to be made."""

    def tell(self, text):
        """From rank 0 to the others."""

    def collect(self, _limit_s):
        """At rank 0: a text from each other rank, in their order."""
        return []


class Mpi:
    """MPI's world, by mpi4py: a communicator of our own, so that no message meets the program's."""

    name = "mpi4py"

    def __init__(self, mpi):
        self._mpi = mpi
        self.rank, self.size = mpi.COMM_WORLD.Get_rank(), mpi.COMM_WORLD.Get_size()
        self._comm = self._has_left = None
        self._sent = []

    def open(self, has_left):
        """Duplicate the communicator; every rank must come.

        Args:
            has_left: Whether the rank of this number takes no more part: then it says nothing.
        """
        self._has_left = has_left
        self._comm = self._mpi.COMM_WORLD.Dup()
        self._comm.Set_errhandler(self._mpi.ERRORS_RETURN)

    def tell(self, text):
        """From rank 0 to the others; does not wait for them."""
        self._send(text, range(1, self.size))

    def hear(self, limit_s):
        """At another rank: the next text of rank 0."""
        return self._receive(0, limit_s)

    def answer(self, text):
        """From another rank to rank 0; does not wait for it."""
        self._send(text, [0])

    def collect(self, limit_s):
        """At rank 0: a text from each other rank, in their order."""
        end_s = time.monotonic() + limit_s
        return [self._receive(rank, end_s - time.monotonic()) for rank in range(1, self.size)]

    def _send(self, text, ranks):
        self._check()
        self._sent = [request for request in self._sent if not request.Test()]
        self._sent += [self._comm.isend(text, rank, _TAG) for rank in ranks]

    def _receive(self, rank, limit_s):
        self._check()
        _until(lambda: self._comm.iprobe(rank, _TAG), limit_s, lambda: self._has_left(rank))
        return self._comm.recv(source=rank, tag=_TAG)

    def _check(self):
        """After ``MPI_Finalize`` a call would end the program."""
        if self._mpi.Is_finalized():
            raise SilentError


class Store:
    """The store by which the ranks of ``torch.distributed`` found each other."""

    name = "torch"

    def __init__(self, torch):
        self.rank, self.size = torch.get_rank(), torch.get_world_size()
        self._group = torch.distributed_c10d
        self._store = None
        self._told = self._answered = 0
        self._old = []

    def open(self, _has_left):
        """Keep the store apart from what others put there; it ends with rank 0 by itself."""
        self._store = self._group.PrefixStore("tune-live", self._group._get_default_store())

    def tell(self, text):
        """From rank 0 to the others."""
        self._told += 1
        self._store.set(f"told-{self._told}", text)
        self._old.append(f"told-{self._told}")

    def hear(self, limit_s):
        """At another rank: the next text of rank 0."""
        self._told += 1
        return self._receive(f"told-{self._told}", limit_s)

    def answer(self, text):
        """From another rank to rank 0."""
        self._answered += 1
        self._store.set(f"answer-{self._answered}-{self.rank}", text)

    def collect(self, limit_s):
        """At rank 0: a text from each other rank, in their order."""
        self._answered += 1
        end_s = time.monotonic() + limit_s
        keys = [f"answer-{self._answered}-{rank}" for rank in range(1, self.size)]
        texts = [self._receive(key, end_s - time.monotonic()) for key in keys]
        for key in self._old + keys:  # who has answered has read all that went before
            self._store.delete_key(key)
        self._old = []
        return texts

    def _receive(self, key, limit_s):
        self._store.wait([key], timedelta(seconds=max(0.001, limit_s)))
        return self._store.get(key).decode()


def choose(rank):
    """The transport that the program itself has set up by now.

    Args:
        rank: As the launcher says.

    Raises:
        RefusedError: There is none.
    """
    size = rank_report.launcher_size()
    mpi = _mpi()
    for found in (None if _is_shared(mpi) else mpi and Mpi(mpi), _torch()):
        if found is not None and found.size > 1:
            if found.rank == rank and size in (None, found.size):
                return found
            theirs = f"rank {found.rank} of {found.size} to {found.name}"
            raise RefusedError(f"rank {rank} of {size} is {theirs}")
    if rank == 0 and size in (None, 1):
        return Alone()
    if _is_shared(mpi):
        raise RefusedError("several threads of a rank may call MPI, one at a time")
    raise RefusedError(
        "neither mpi4py nor torch.distributed connected its ranks by the end of an iteration"
    )


def _mpi():
    mpi = sys.modules.get("mpi4py.MPI")
    return None if mpi is None or not mpi.Is_initialized() or mpi.Is_finalized() else mpi


def _is_shared(mpi):
    """Whether a call of ours could meet one of another thread: one that the level forbids."""
    if mpi is None or mpi.Query_thread() == mpi.THREAD_MULTIPLE:
        return False
    return mpi.Query_thread() == mpi.THREAD_SERIALIZED or not mpi.Is_thread_main()


def _torch():
    torch = sys.modules.get("torch.distributed")
    if torch is None or not torch.is_available() or not torch.is_initialized():
        return None
    return Store(torch)
