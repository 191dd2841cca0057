"""The PyTorch image trainer: DistributedDataParallel, fed by OpenCV in DataLoader workers.

    mpirun -n 4 python workloads/torch_ddp.py --benchmark --out result
    torchrun --standalone --nproc-per-node 4 workloads/torch_ddp.py --benchmark --out result

It does what chainer_imagenet.py does, with the same images in the same order. The ranks find each
other by the variables of mpirun or torchrun and need no MPI. It needs torch, pytorch-pfn-extras
and opencv-python-headless; `--arch resnet50` also torchvision.
"""

from __future__ import annotations

import os
import sys
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

import images
import ranks
import torch_training
import torch_world
import trainer_options
from image_files import ImageData
from torch_world import World
from trainer_options import WorkloadError

NAME = Path(__file__).name

#: The first rank to exit ends the job: this long the others leave rank 0 to speak, s.
LAST_WORD_S = 2.0


def parse(argv: Sequence[str]) -> Namespace:
    """Read a command line; raises ``WorkloadError``."""
    parser = trainer_options.TrainerParser(
        NAME,
        str(__doc__),
        **trainer_options.IMAGE_DEFAULTS,
        # DataLoader's own (torch 2): without workers the rank loads its batches between its steps.
        prefetch=2,
        workers="none, the rank loads itself",
        least_workers=0,
    )
    trainer_options.add_images(parser)
    text = "what exchanges gradients"
    trainer_options.choice(parser, "--backend", ("gloo", "nccl"), text, "gloo; with --gpu nccl")
    parser.add_argument(
        "--pin-memory",
        choices=("yes", "no"),
        default="no",
        metavar="yes|no",
        help="a thread copies batches to memory that the GPU reads by itself [no]",
    )
    text = "gradients that DistributedDataParallel exchanges at a time, MiB [the library's: 25]"
    trainer_options.number(parser, "--bucket-mb", help=text)
    options = parser.read(argv)
    trainer_options.complete(options)
    options.backend = options.backend or ("nccl" if options.gpu else "gloo")
    for name, is_set in (
        ("--backend nccl", options.backend == "nccl"),
        ("--pin-memory yes", options.pin_memory == "yes"),
    ):
        if is_set and not options.gpu:
            raise WorkloadError(f"{name}: needs --gpu (see --help)")
    return options


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Train as ``argv`` says. The exit code is 2 if that is refused, 1 if it fails."""
    place = torch_world.place(environ)
    try:
        options = parse(argv)
        world = torch_world.meet(place, options.out)
    except (WorkloadError, OSError, torch_world.MeetingError) as error:
        # Each rank by itself: they have not met.
        if place.rank == 0:
            print(f"{NAME}: error: {error}", file=sys.stderr, flush=True)
        else:
            time.sleep(LAST_WORD_S)
        return 1 if isinstance(error, torch_world.MeetingError) else 2
    from torch import distributed

    try:
        ranks.together(world, lambda: ranks.make_folder(options, place.rank), NAME)
        data = ranks.together(world, lambda: images.load(options), NAME)
        return train(world, options, data)
    except ranks.JobRefusedError:
        return 2
    finally:
        distributed.destroy_process_group()


def train(world: World, options: Namespace, data: ImageData) -> int:
    """Train and evaluate; gives the exit code."""
    loading = torch_training.Loading(options, data, world)
    if world.rank == 0:
        loaders = "none (default)" if options.loaderjob is None else options.loaderjob or "none"
        print(data)
        print(
            f"run: {options.length}, {world.size} ranks, batch {options.batchsize}, "
            f"{options.arch}, crop {options.crop}, {'GPU' if options.gpu else 'CPU'}, "
            f"{options.backend}, loader jobs {loaders}",
            flush=True,
        )
    try:
        iterations, elapsed_s = torch_training.run(
            world, options, loading, classes=data.classes, local_rank=world.local_rank()
        )
    except WorkloadError as error:  # of a worker: its traceback comes before
        print(f"{NAME}: error: {str(error).splitlines()[-1]}", file=sys.stderr, flush=True)
        return 1
    if world.rank == 0:
        print(f"done: {iterations} iterations in {elapsed_s:.3f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
