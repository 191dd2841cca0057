"""The flags that all shipped trainers understand; each adds its own to this parser."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

START_METHODS = ("fork", "forkserver", "spawn")


class WorkloadError(Exception):
    """Why a trainer does not start: one line for the user."""


@dataclass(frozen=True)
class Length:
    """How long to train: ``unit`` is ``iteration`` or ``epoch``, as in Chainer's triggers."""

    count: int
    unit: str

    def __str__(self) -> str:
        return f"{self.count} {self.unit}{'' if self.count == 1 else 's'}"


@dataclass(frozen=True)
class Defaults:
    """What a trainer does where nothing else is asked for.

    Attributes:
        batchsize: Examples per rank and iteration.
        iterations: Length of a benchmark run.
        epochs: Length of a whole job.
        prefetch: Batches that are prepared ahead.
        workers: The library's own number of worker processes, in words.
        least_workers: The fewest that the library takes.
    """

    batchsize: int
    iterations: int
    epochs: int
    prefetch: int = 1
    workers: str = "one per CPU"
    least_workers: int = 1


@dataclass(frozen=True)
class TrainerOptions:
    """What was asked for; ``loaderjob`` and ``start_method`` of ``None`` are the library's."""

    batchsize: int
    length: Length
    loaderjob: int | None
    prefetch: int
    start_method: str | None
    seed: int
    gpu: bool
    out: Path
    cprofile: Path | None
    benchmark: bool
    log_writes: int


_LENGTHS = ("iterations", "epochs")


class Parser(argparse.ArgumentParser):
    """A parser that raises where the one it is made of would end the process."""

    def error(self, message: str) -> NoReturn:
        """Say so to the caller: the ranks of a job have to agree before any of them ends."""
        raise WorkloadError(f"{message} (see --help)")


def parser(prog: str, description: str, defaults: Defaults) -> Parser:
    """A parser of the common flags, to which a trainer adds its own."""
    made = Parser(
        prog=prog,
        description=description,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_training(made, defaults)
    _add_loading(made, defaults)
    _add_output(made)
    return made


def read(parser: Parser, argv: Sequence[str], defaults: Defaults) -> dict[str, Any]:
    """Read a command line: a value for each field of the trainer's options.

    Raises:
        WorkloadError: An unknown flag, or a value that cannot be.
    """
    given = parser.parse_args(argv)
    if given.iterations is not None:
        length = Length(given.iterations, "iteration")
    elif given.epochs is not None:
        length = Length(given.epochs, "epoch")
    elif given.benchmark:
        length = Length(defaults.iterations, "iteration")
    else:
        length = Length(defaults.epochs, "epoch")
    values = {name: value for name, value in vars(given).items() if name not in _LENGTHS}
    return {"length": length, **values}


def positive(text: str, least: int = 1) -> int:
    """The type of a flag that counts something."""
    value = int(text)
    if value < least:
        raise argparse.ArgumentTypeError(f"{text} is not {least} or more")
    return value


def _not_negative(text: str) -> int:
    return positive(text, 0)


def _seed(text: str) -> int:
    value = int(text)
    # Each rank adds its number, and NumPy's seeds are 32 bits wide.
    if not 0 <= value < 2**31:
        raise argparse.ArgumentTypeError(f"{text} is not in 0..{2**31 - 1}")
    return value


# argparse names the type in "invalid ... value".
positive.__name__ = _not_negative.__name__ = _seed.__name__ = "integer"


def _add_training(parser: Parser, defaults: Defaults) -> None:
    add = parser.add_argument
    add(
        *("-b", "--batchsize"),
        type=positive,
        default=defaults.batchsize,
        metavar="N",
        help=f"examples per rank and iteration [{defaults.batchsize}]",
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        *("-i", "--iterations", "--iteration"),
        type=positive,
        metavar="N",
        help=f"updates to make [with --benchmark: {defaults.iterations}]",
    )
    length.add_argument(
        *("-e", "--epochs", "--epoch"),
        type=positive,
        metavar="N",
        help=f"sweeps over the training data [{defaults.epochs}]",
    )
    seed_help = "of the weights, the data and their order [0]"
    add("--seed", type=_seed, default=0, metavar="N", help=seed_help)
    add("-g", "--gpu", action="store_true", help="train on GPUs, one per rank")


def _add_loading(parser: Parser, defaults: Defaults) -> None:
    add = parser.add_argument
    add(
        *("-j", "--loaderjob"),
        type=positive if defaults.least_workers else _not_negative,
        metavar="N",
        help=f"worker processes of each iterator [the library's default: {defaults.workers}]",
    )
    add(
        "--prefetch",
        type=positive,
        default=defaults.prefetch,
        metavar="N",
        help=f"batches each iterator prepares ahead [{defaults.prefetch}]",
    )
    add(
        "--start-method",
        choices=START_METHODS,
        metavar="NAME",
        help=f"how iterators start workers: {', '.join(START_METHODS)} [Python's default]",
    )


def _add_output(parser: Parser) -> None:
    add = parser.add_argument
    add(
        *("-o", "--out"),
        type=Path,
        default=Path("result"),
        metavar="DIR",
        help="folder of the log [result]",
    )
    add("--cprofile", type=Path, metavar="DIR", help="profile each rank into DIR/rank-N.prof")
    add(
        "--benchmark",
        action="store_true",
        help="a short run with no extension but Evaluator and LogReport",
    )
    add(
        "--log-writes",
        type=positive,
        default=20,
        metavar="N",
        help="how often a run writes its log, the end included [20]",
    )
