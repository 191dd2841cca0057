"""The flags that all shipped trainers understand; each adds its own to this parser."""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

START_METHODS = ("fork", "forkserver", "spawn")
ARCHITECTURES = ("small", "resnet50")

#: Height and width of an example in pixels, by the network.
CROPS = {"small": 64, "resnet50": 224}

#: Of the image trainers. With 4 ranks on 2 cores a well-set launch takes 5 to 8 s; the epochs
#: are those of He et al. 2015, as in ChainerMN's example.
IMAGE_DEFAULTS: dict[str, Any] = {"batchsize": 16, "iterations": 20, "epochs": 90}


class WorkloadError(Exception):
    """Why a trainer does not start or go on: one line for the user."""


class Length(NamedTuple):
    """How long to train: ``unit`` is ``iteration`` or ``epoch``, as in Chainer's triggers."""

    number: int
    unit: str

    def __str__(self) -> str:
        return f"{self.number} {self.unit}{'' if self.number == 1 else 's'}"


def log_interval(options: Namespace) -> tuple[float, str]:
    """Return the period that makes ``log_writes`` log entries in a run, and its unit.

    It may be a fraction (of iterations too: Chainer 7.8.1 takes them, though its documentation does
    not say so), but is at least one iteration.
    """
    number, unit = options.length
    period = number / options.log_writes
    return (max(1.0, period) if unit == "iteration" else period), unit


class Parser(argparse.ArgumentParser):
    """A parser that raises :class:`WorkloadError` if a command line is wrong."""

    def __init__(self, prog: str, description: str) -> None:
        layout = argparse.RawDescriptionHelpFormatter
        super().__init__(prog, None, description, formatter_class=layout, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Tell the caller: the ranks of a job have to agree before any of them ends."""
        raise WorkloadError(f"{message} (see --help)")


class TrainerParser(Parser):
    """The common flags: a benchmark run has ``iterations``, a whole job ``epochs``.

    ``workers`` is the library's own number of worker processes, in words, and ``least_workers`` the
    fewest that it takes.
    """

    def __init__(
        self,
        prog: str,
        description: str,
        *,
        batchsize: int,
        iterations: int,
        epochs: int,
        prefetch: int = 1,
        workers: str = "one per CPU",
        least_workers: int = 1,
    ) -> None:
        super().__init__(prog, description)
        self.lengths = (Length(iterations, "iteration"), Length(epochs, "epoch"))
        number(self, "-b", "--batchsize", default=batchsize, help="examples per rank and iteration")
        length = self.add_mutually_exclusive_group()
        text = f"updates to make [with --benchmark: {iterations}]"
        number(length, "-i", "--iterations", "--iteration", help=text)
        text = f"sweeps over the training data [{epochs}]"
        number(length, "-e", "--epochs", "--epoch", help=text)
        number(self, "--seed", least=0, default=0, help="of the weights, data and their order")
        self.add_argument("-g", "--gpu", action="store_true", help="train on GPUs, one per rank")
        text = f"worker processes of each iterator [the library's default: {workers}]"
        number(self, "-j", "--loaderjob", least=least_workers, help=text)
        number(self, "--prefetch", default=prefetch, help="batches each iterator prepares ahead")
        choice(self, "--start-method", START_METHODS, "how iterators start workers", "Python's")
        add = self.add_argument
        out = Path("result")
        add("-o", "--out", type=Path, default=out, metavar="DIR", help="folder of the log [result]")
        text = "a short run with no extension but Evaluator and LogReport"
        add("--benchmark", action="store_true", help=text)
        text = "how often a run writes its log, the end included"
        number(self, "--log-writes", default=20, help=text)

    def read(self, argv: Sequence[str]) -> Namespace:
        """Read a command line; raises ``WorkloadError``.

        ``loaderjob`` and ``start_method`` of ``None`` are the library's own.
        """
        options = self.parse_args(argv)
        if options.iterations is not None:
            options.length = Length(options.iterations, "iteration")
        elif options.epochs is not None:
            options.length = Length(options.epochs, "epoch")
        else:
            options.length = self.lengths[0 if options.benchmark else 1]
        return options


def number(parser: Any, *flags: str, help: str, least: int = 1, default: int | None = None) -> None:
    """Add a flag that counts something; the help ends with its default."""
    text = help if default is None else f"{help} [{default}]"
    parser.add_argument(*flags, type=_at_least(least), default=default, metavar="N", help=text)


def _at_least(least: int) -> Callable[[str], int]:
    def integer(text: str) -> int:  # argparse names the type in "invalid ... value"
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{text} is not {least} or more")
        if value >= 2**31:  # NumPy's seeds are 32 bits wide, and each rank adds its number
            raise argparse.ArgumentTypeError(f"{text} is not below {2**31}")
        return value

    return integer


def choice(parser: Any, flag: str, names: Sequence[str], help: str, default: str) -> None:
    """Add a flag that names one of a few things; ``default`` says what stands for none."""
    text = f"{help}: {', '.join(names)} [{default}]"
    parser.add_argument(flag, choices=names, metavar="NAME", help=text)


def add_images(parser: TrainerParser) -> None:
    """Add the flags of the trainers that learn images."""
    text = f"the network: {', '.join(ARCHITECTURES)} [small; with --gpu resnet50]"
    parser.add_argument("-a", "--arch", choices=ARCHITECTURES, metavar="NAME", help=text)
    crops = ", ".join(f"{arch} {crop}" for arch, crop in CROPS.items())
    number(parser, "--crop", help=f"height and width of an example in pixels [{crops}]")
    text = "examples per rank and step of the evaluation [as --batchsize]"
    number(parser, "-B", "--val-batchsize", help=text)
    text = "a folder with a subfolder of images for each class [synthetic JPEG images]"
    parser.add_argument("--data", type=Path, metavar="FOLDER", help=text)


def complete(options: Namespace) -> None:
    """Put in what stands for an image trainer's flag that was not given."""
    options.arch = options.arch or ("resnet50" if options.gpu else "small")
    options.crop = options.crop or CROPS[options.arch]
    options.val_batchsize = options.val_batchsize or options.batchsize
