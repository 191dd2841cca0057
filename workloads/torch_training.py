"""One training of the PyTorch trainer: its batches, the model on its device, the loop, the log."""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ranks
from image_files import ImageData
from images import Images, rank_order
from torch_world import World
from trainer_options import WorkloadError

#: As in the ChainerMN trainer.
LEARNING_RATE = 0.01
MOMENTUM = 0.9


class EpochOrder:
    """A sampler: the numbers of a rank's examples in the epoch that is set.

    ``length`` is that of the whole dataset; without a ``seed`` each epoch has the same order.
    """

    def __init__(self, length: int, world: World, seed: int | None) -> None:
        self.length, self.world, self.seed, self.epoch = length, world, seed, 0

    def __iter__(self) -> Iterator[int]:
        """Return the numbers, in their order."""
        rank, size = self.world.rank, self.world.size
        order = rank_order(self.length, rank=rank, ranks=size, epoch=self.epoch, seed=self.seed)
        return iter(order.tolist())

    def __len__(self) -> int:
        """Return how many there are in an epoch."""
        return math.ceil(self.length / self.world.size)


class Loading:
    """This rank's training and validation batches."""

    def __init__(self, options: Namespace, data: ImageData, world: World) -> None:
        crop, seed = options.crop, options.seed
        augmented = Images(data.train, crop, seed=seed)
        plain = Images(data.test, crop, augment=False)
        self._order = EpochOrder(len(augmented), world, seed)
        self._train = loader(options, augmented, self._order, options.batchsize)
        if ranks.live is not None:
            self._train = ranks.live.torch_loader(self._train, **with_workers(options))
        in_order = EpochOrder(len(plain), world, None)
        self.validation = loader(options, plain, in_order, options.val_batchsize)
        self.iterations_per_epoch = len(self._train)

    def training(self) -> Iterator[Any]:
        """Training batches without end; the workers live through all epochs."""
        while True:
            yield from self._train
            self._order.epoch += 1


def loader(options: Namespace, dataset: Images, order: EpochOrder, batchsize: int) -> Any:
    """Return a DataLoader with the workers asked for; ``loaderjob`` of 0 or ``None``: none."""
    from torch.utils.data import DataLoader

    how = {"num_workers": options.loaderjob, "prefetch_factor": options.prefetch}
    workers = {**how, **with_workers(options)} if options.loaderjob else {}
    pin_memory = options.pin_memory == "yes"
    return DataLoader(dataset, batchsize, sampler=order, pin_memory=pin_memory, **workers)


def with_workers(options: Namespace) -> dict[str, Any]:
    """Return the other arguments of a loader that has workers."""
    return {"persistent_workers": True, "multiprocessing_context": options.start_method}


@dataclass(frozen=True)
class SharedModel:
    """A network of all ranks, its own part on this rank's device, and what changes it."""

    shared: Any  # DistributedDataParallel: its backward exchanges gradients
    network: Any
    optimizer: Any
    device: Any

    def figures(self, network: Any, batch: Any) -> tuple[Any, Any]:
        """Loss and accuracy of a batch, as tensors."""
        from torch.nn.functional import cross_entropy

        images, labels = (part.to(self.device, non_blocking=True) for part in batch)
        scores = network(images)
        labels = labels.long()
        return cross_entropy(scores, labels), (scores.argmax(1) == labels).float().mean()

    def update(self, batch: Any) -> None:
        """One step of all ranks."""
        from pytorch_pfn_extras import reporting

        self.optimizer.zero_grad()
        loss, accuracy = self.figures(self.shared, batch)
        loss.backward()
        self.optimizer.step()
        reporting.report({"loss": loss.detach(), "accuracy": accuracy})

    def evaluate(self, batches: Any) -> None:
        """Report loss and accuracy over the validation images, as the mean of all ranks."""
        import torch
        from pytorch_pfn_extras import reporting

        self.network.eval()
        with torch.no_grad():
            figures = [torch.stack(self.figures(self.network, batch)) for batch in batches]
            mean = torch.stack(figures).mean(0).cpu()
        self.network.train()
        torch.distributed.all_reduce(mean)
        loss, accuracy = (mean / torch.distributed.get_world_size()).tolist()
        reporting.report({"validation/loss": loss, "validation/accuracy": accuracy})


def run(
    world: World, options: Namespace, loading: Loading, *, classes: int, local_rank: int
) -> tuple[int, float]:
    """Train and evaluate; return the iterations, and their time with evaluations in seconds."""
    model = build(options, classes, local_rank)
    manager = build_manager(world.rank, options, model, loading)
    batches = loading.training()
    while not manager.stop_trigger:
        with manager.run_iteration():  # with the wait for the batch, the workers' start too
            model.update(next(batches))
    return manager.iteration, manager.elapsed_time


def build(options: Namespace, classes: int, local_rank: int) -> SharedModel:
    """Make the same network on every rank's device."""
    import torch.distributed
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(options.seed)
    device = torch.device("cpu")
    if options.gpu:
        # More ranks than GPUs share them: NCCL refuses that, gloo does not.
        device = torch.device("cuda", local_rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
    network = network_of(options.arch, classes).to(device)
    bucket = {} if options.bucket_mb is None else {"bucket_cap_mb": options.bucket_mb}
    devices = [device] if options.gpu else None
    group = torch.distributed.new_group(backend=options.backend)
    shared = DistributedDataParallel(network, device_ids=devices, process_group=group, **bucket)
    optimizer = torch.optim.SGD(network.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)
    return SharedModel(shared, network, optimizer, device)


def network_of(arch: str, classes: int) -> Any:
    """Return a network of images (n, 3, height, width) with ``classes`` outputs.

    Of ``small``, three convolutions, an image of 64 x 64 costs a core as much as decoding it does.
    ``resnet50`` is torchvision's.

    Raises:
        WorkloadError: torchvision cannot be imported.
    """
    from torch import nn

    if arch == "resnet50":
        try:
            from torchvision.models import resnet50
        except ImportError as error:
            raise WorkloadError(f"--arch resnet50 needs torchvision: {error}") from error
        return resnet50(num_classes=classes)
    layers: list[Any] = []
    for channels, out, size, stride in ((3, 16, 5, 2), (16, 32, 3, 1), (32, 64, 3, 1)):
        layers += [nn.Conv2d(channels, out, size, stride, size // 2), nn.ReLU(), nn.MaxPool2d(2)]
    layers[-1:] = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes)
    return nn.Sequential(*layers)


def build_manager(rank: int, options: Namespace, model: SharedModel, loading: Loading) -> Any:
    """Return the manager with its log, and an evaluation once an epoch and at the end."""
    from pytorch_pfn_extras.training import ExtensionsManager, extension, extensions

    per_epoch = loading.iterations_per_epoch
    in_epochs = options.length.unit == "epoch"
    iterations = options.length.number * (per_epoch if in_epochs else 1)
    manager = ExtensionsManager(
        model.network,
        model.optimizer,
        1,
        iters_per_epoch=per_epoch,
        out_dir=str(options.out),
        stop_trigger=(iterations, "iteration"),
    )
    manager.extend(
        lambda _: model.evaluate(loading.validation),
        name="evaluation",
        trigger=interval_or_end(per_epoch, iterations),
        priority=extension.PRIORITY_WRITER,
    )
    if rank == 0:
        period = max(1.0, iterations / options.log_writes)
        manager.extend(
            extensions.LogReport(
                trigger=interval_or_end(period, iterations),
                postprocess=lambda entry: entry.update(epoch_detail=manager.epoch_detail),
            )
        )
        if not options.benchmark:
            columns = ["epoch", "iteration", "loss", "validation/loss"]
            columns += ["accuracy", "validation/accuracy", "elapsed_time"]
            manager.extend(extensions.PrintReport(columns))
    if ranks.live is not None:
        manager.extend(ranks.live.PpeExtension())
    return manager


def interval_or_end(period: float, end: int) -> Callable[[Any], bool]:
    """Return a trigger for every ``period`` (maybe a fraction) iterations, and for the end."""
    return lambda manager: manager.iteration % period < 1 or manager.iteration == end
