"""How the program loads its data; each is an argument of the program, so it needs a placeholder."""

from __future__ import annotations

from tuner.model import OFF, ON, Choice, Flag, IntRange, Knob

LOADING = (
    # Workers decode and augment, which is work for a core. Where they rather wait for
    # storage, more than there are cores can help: `--knob iterator_workers=1..16`. None at all
    # (`0..cores`) is for programs that load in the rank then; Chainer's iterator does not.
    Knob(
        "iterator_workers",
        IntRange(1, "cores"),
        Flag(),
        help="processes per rank that load the training data",
        why="Too few let the training wait for its data; too many take the cores from it."
        " Chainer's MultiprocessIterator starts one a core in each rank unless it is told;"
        " PyTorch's DataLoader starts none (give it 0..cores).",
        source="Chainer 7.8, MultiprocessIterator, n_processes"
        " <https://docs.chainer.org/en/stable/reference/generated/"
        "chainer.iterators.MultiprocessIterator.html>",
        live=True,
    ),
    Knob(
        "start_method",
        Choice(("fork", "spawn", "forkserver")),
        Flag(),
        help="how worker processes are started",
        why="A forked worker starts at once and shares its parent's memory, but inherits its"
        " locks and MPI state; a spawned one starts slowly, with memory of its own.",
        source="Python, multiprocessing, Contexts and start methods"
        " <https://docs.python.org/3/library/multiprocessing.html"
        "#contexts-and-start-methods>",
    ),
    Knob(
        "prefetch",
        Choice((1, 2, 4, 8)),
        Flag(),
        help="batches that the workers load ahead",
        why="A deeper queue rides out a slow batch; each batch in it takes memory, and its work"
        " competes with the training.",
        source="Chainer 7.8, MultiprocessIterator, n_prefetch; PyTorch, DataLoader, prefetch_factor"
        " <https://docs.pytorch.org/docs/stable/data.html>",
        live=True,
    ),
    Knob(
        "pin_memory",
        Choice((OFF, ON)),
        Flag(switch=True),
        help="load into memory that a GPU reads by itself",
        why="From pinned memory a copy to the GPU runs beside the computation; pinning itself"
        " costs a copy on the host.",
        source="PyTorch, torch.utils.data, Memory Pinning"
        " <https://docs.pytorch.org/docs/stable/data.html#memory-pinning>",
        neutral=OFF,
        needs=("gpu",),
        live=True,
    ),
)
