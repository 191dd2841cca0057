"""Says what works here: `python -m benchmarks.gpu.checks NAME` runs one check and prints a line.

A check that fails ends with its traceback. The run starts all of them at the same time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.gpu.parts import ROOT

_MPIRUN = ("mpirun", "--oversubscribe", "--bind-to", "none", "-n")


def torch() -> str:
    """A step of convolutions on the GPU."""
    import torch as t

    weight = t.randn(8, 3, 3, 3, device="cuda", requires_grad=True)
    t.nn.functional.conv2d(t.randn(2, 3, 16, 16, device="cuda"), weight).sum().backward()
    name = t.cuda.get_device_name(0)
    return f"{t.__version__}, {name}, cuDNN {t.backends.cudnn.version()}"


def cupy() -> str:
    """A sum on the GPU."""
    import cupy as cp

    assert int(cp.arange(10).sum()) == 45
    return f"{cp.__version__}, CUDA {cp.cuda.runtime.runtimeGetVersion()}"


def nccl() -> str:
    """An exchange of one rank with itself."""
    import cupy as cp
    from cupy.cuda import nccl as library

    comm = library.NcclCommunicator(1, library.get_unique_id(), 0)
    before, after = cp.ones(4, cp.float32), cp.zeros(4, cp.float32)
    stream = cp.cuda.Stream.null.ptr
    comm.allReduce(before.data.ptr, after.data.ptr, 4, library.NCCL_FLOAT, library.NCCL_SUM, stream)
    assert float(after.sum()) == 4
    return str(library.get_version())


def mpi() -> str:
    """What a rank says of the MPI; mpirun starts two of them."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    assert world.size == 2 and world.allreduce(world.rank) == 1
    return MPI.Get_library_version().partition(",")[0] if world.rank == 0 else ""


def nvml() -> str:
    """What is recorded of the GPU while a launch runs."""
    from tuner.hosts.machine import this_machine
    from tuner.hosts.telemetry.gpu import Gpus

    columns = Gpus(os.environ).columns()
    assert None not in columns.values(), columns
    return f"{', '.join(this_machine().gpus)}: {columns}"


def chainer() -> str:
    """A step of each kind of layer of the trainers, with the compatibility shim."""
    sys.path.insert(0, str(ROOT / "workloads"))
    import compat

    compat.install()
    import chainer as ch
    import numpy as np
    from chainer import functions, links

    layers = [links.Convolution2D(3, 4, 3), links.BatchNormalization(4), functions.relu]
    model = ch.Sequential(*layers, lambda h: functions.max_pooling_2d(h, 2), links.Linear(None, 3))
    device = ch.get_device("@cupy:0")
    device.use()
    model.to_device(device)
    images = device.send(np.random.default_rng(0).random((2, 3, 9, 9), np.float32))
    optimizer = ch.optimizers.Adam().setup(model)
    labels = device.send(np.array([0, 1], np.int32))
    optimizer.update(lambda: functions.softmax_cross_entropy(model(images), labels))
    return f"{ch.__version__} on NumPy {np.__version__}"


CHECKS: dict[str, Callable[[], str]] = {
    check.__name__: check for check in (torch, cupy, nccl, mpi, nvml, chainer)
}


def commands(python: str, folder: Path, *, has_device: bool) -> dict[str, list[str]]:
    """Return what is started, by name: the checks, and three steps of each Chainer trainer.

    A first launch compiles CuPy's kernels, which the trainers of the studies then find.
    """
    checks = {name: [python, "-m", "benchmarks.gpu.checks", name] for name in CHECKS}
    checks["mpi"] = [*_MPIRUN, "2", *checks["mpi"]]
    for name in ("chainer_mnist", "chainer_imagenet"):
        trainer = [python, "-m", "mpi4py", str(ROOT / "workloads" / f"{name}.py"), "--benchmark"]
        trainer += ["--iterations", "3", "--loaderjob", "2", "--out", str(folder / name)]
        checks[f"{name}.py"] = [*_MPIRUN, "1", *trainer, *(("--gpu",) if has_device else ())]
    return checks


if __name__ == "__main__":
    print(CHECKS[sys.argv[1]]())
