"""The PyTorch image trainer: DistributedDataParallel, fed by OpenCV in DataLoader workers.

    mpirun -n 4 python workloads/torch_ddp.py --benchmark --out result
    torchrun --standalone --nproc-per-node 4 workloads/torch_ddp.py --benchmark --out result

It does what chainer_imagenet.py does, with the same images in the same order. The ranks find each
other by the variables of mpirun or torchrun and need no MPI. Broken files are named, counted and
left out. It needs torch, pytorch-pfn-extras and opencv-python-headless.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not (TYPE_CHECKING or __package__):  # run by its path: this folder is on sys.path
    import needs

    needs.check(__file__)

if TYPE_CHECKING or __package__:
    from . import host, image_data, needs, ranks, torch_options, torch_training, torch_world
    from .image_files import Data, ImagesError
    from .skipped_images import Skipped, summary
    from .torch_loading import Loading
    from .torch_options import TorchOptions
    from .torch_world import World
    from .trainer_options import WorkloadError
else:  # run by its path: this folder is on sys.path
    import host
    import image_data
    import needs
    import ranks
    import torch_options
    import torch_training
    import torch_world
    from image_files import Data, ImagesError
    from skipped_images import Skipped, summary
    from torch_loading import Loading
    from torch_options import TorchOptions
    from torch_world import World
    from trainer_options import WorkloadError

NAME = Path(__file__).name


def main(argv: Sequence[str], environ: Any) -> int:
    """Train as ``argv`` says. The exit code is 2 where that is refused."""
    place = torch_world.place(environ)
    try:
        options = torch_options.parse(NAME, str(__doc__), argv)
        world = torch_world.meet(place, options.out)
    except (WorkloadError, OSError) as error:  # each rank for itself: they have not met
        needs.complain(place.rank, NAME, error)
        return 2
    except torch_world.MeetingError as error:
        needs.complain(place.rank, NAME, error)
        return 1
    together = partial(ranks.together, world, refusals=(WorkloadError, ImagesError), prog=NAME)
    local_rank, ranks_here = world.neighbours()
    try:
        together(lambda: check(options, place.rank, ranks_here))
        data = together(lambda: image_data.load(options.images, options.seed))
    except ranks.RefusedError:
        world.leave()
        return 2
    with ranks.profiled(options.cprofile, world.rank):
        return train(world, options, data, local_rank)


def check(options: TorchOptions, rank: int, ranks_here: int) -> None:
    """Hold the options against this host, and make the folders (rank 0).

    Raises:
        WorkloadError: It cannot serve them.
    """
    reason = host.gpu_refusal(ranks_here, find_gpus()) if options.gpu else None
    if options.backend == "nccl" and not _has_nccl():
        reason = reason or "--backend nccl: this PyTorch has no NCCL; use --backend gloo"
    for flag, folder in (("--out", options.out), ("--cprofile", options.cprofile)):
        if rank == 0 and folder is not None:
            reason = reason or host.unwritable(folder, flag)
    if reason is not None:
        raise WorkloadError(reason)


def find_gpus() -> host.Gpus:
    """What this PyTorch can use."""
    from torch import cuda, version

    if not cuda.is_available():
        built = version.cuda or version.hip
        missing = "PyTorch finds no CUDA device" if built else "this PyTorch was built without CUDA"
        return host.Gpus(missing=missing)
    return host.Gpus(cuda.device_count(), _has_nccl())


def _has_nccl() -> bool:
    from torch import distributed

    return bool(distributed.is_nccl_available())


def train(world: World, options: TorchOptions, data: Data, local_rank: int) -> int:
    """Train, evaluate, and say which images were left out; gives the exit code."""
    skipped = Skipped(options.out / "skipped" / f"rank-{world.rank}")
    skipped.clear()
    loading = Loading(options, data, world.rank, world.size, skipped)
    if world.rank == 0:
        images = f"{len(data.train.labels)} + {len(data.test.labels)} images"
        print(f"data: {data.words}, {images}")
        print(torch_training.summary(options, world.size), flush=True)
    try:
        iterations, elapsed_s = torch_training.run(
            world, options, loading, classes=data.classes, local_rank=local_rank
        )
    except ImagesError as error:  # of a worker: its traceback comes before
        print(f"{NAME}: error: {str(error).splitlines()[-1]}", file=sys.stderr, flush=True)
        return 1
    left_out = summary(world.allgather(skipped.read()))
    if world.rank == 0:
        if left_out is not None:
            print(left_out)
        print(f"done: {iterations} iterations in {elapsed_s:.3f} s", flush=True)
    world.leave()
    return 0


if __name__ == "__main__":
    import os

    sys.exit(main(sys.argv[1:], os.environ))
