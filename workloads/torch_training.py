"""One training of the PyTorch trainer: the model on its device, the loop, the log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from . import retuned, schedule, torch_networks
    from .torch_loading import Loading
    from .torch_options import TorchOptions
    from .torch_world import World
else:  # run by its path: this folder is on sys.path
    import retuned
    import schedule
    import torch_networks
    from torch_loading import Loading
    from torch_options import TorchOptions
    from torch_world import World

#: As in the ChainerMN trainer.
LEARNING_RATE = 0.01
MOMENTUM = 0.9


@dataclass(frozen=True)
class Model:
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


def run(
    world: World, options: TorchOptions, loading: Loading, *, classes: int, local_rank: int
) -> tuple[int, float]:
    """Train and evaluate; the log is rank 0's.

    Returns:
        Iterations, and their time with evaluations, in seconds.
    """
    import torch.distributed

    torch.distributed.init_process_group(
        options.backend, store=world.store, rank=world.rank, world_size=world.size
    )
    try:
        model = build(options, classes, local_rank)
        iterations = _iterations(options, loading.iterations_per_epoch)
        manager = build_manager(world.rank, options, model, loading, iterations)
        batches = loading.training()
        while not manager.stop_trigger:
            with manager.run_iteration():  # with the wait for the batch, the workers' start too
                update(model, next(batches))
        return manager.iteration, manager.elapsed_time
    finally:
        torch.distributed.destroy_process_group()


def build(options: TorchOptions, classes: int, local_rank: int) -> Model:
    """The same network on every rank's device."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(options.seed)
    device = torch.device("cuda", local_rank) if options.gpu else torch.device("cpu")
    if options.gpu:
        torch.cuda.set_device(device)
    network = torch_networks.make(options.images.arch, classes).to(device)
    bucket = {} if options.bucket_mb is None else {"bucket_cap_mb": options.bucket_mb}
    shared = DistributedDataParallel(
        network, device_ids=[local_rank] if options.gpu else None, **bucket
    )
    optimizer = torch.optim.SGD(network.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)
    return Model(shared, network, optimizer, device)


def build_manager(
    rank: int, options: TorchOptions, model: Model, loading: Loading, iterations: int
) -> Any:
    """The manager with its extensions: the evaluation once an epoch and at the end, the log."""
    from pytorch_pfn_extras.training import ExtensionsManager, extension, extensions

    manager = ExtensionsManager(
        model.network,
        model.optimizer,
        1,
        iters_per_epoch=loading.iterations_per_epoch,
        out_dir=str(options.out),
        stop_trigger=(iterations, "iteration"),
    )
    manager.extend(
        lambda _: evaluate(model, loading.validation),
        name="evaluation",
        trigger=_interval_or_end(loading.iterations_per_epoch, iterations),
        priority=extension.PRIORITY_WRITER,
    )
    if rank == 0:
        period, _ = schedule.log_interval(iterations, "iteration", options.log_writes)
        manager.extend(
            extensions.LogReport(
                trigger=_interval_or_end(period, iterations),
                postprocess=lambda entry: entry.update(epoch_detail=manager.epoch_detail),
            )
        )
        if not options.benchmark:
            figures = [f"{prefix}{what}" for what in ("loss", "accuracy") for prefix in _PREFIXES]
            manager.extend(extensions.PrintReport(["epoch", "iteration", *figures, "elapsed_time"]))
    retuned.ppe(manager)
    return manager


_PREFIXES = ("", "validation/")


def update(model: Model, batch: Any) -> None:
    """One step of all ranks."""
    from pytorch_pfn_extras import reporting

    model.optimizer.zero_grad()
    loss, accuracy = model.figures(model.shared, batch)
    loss.backward()
    model.optimizer.step()
    reporting.report({"loss": loss.detach(), "accuracy": accuracy})


def evaluate(model: Model, batches: Any) -> None:
    """Report loss and accuracy over the validation images, as the mean of all ranks."""
    import torch
    from pytorch_pfn_extras import reporting

    model.network.eval()
    with torch.no_grad():
        figures = [torch.stack(model.figures(model.network, batch)) for batch in batches]
        mean = torch.stack(figures).mean(0)
    model.network.train()
    torch.distributed.all_reduce(mean)
    loss, accuracy = (mean / torch.distributed.get_world_size()).tolist()
    reporting.report({"validation/loss": loss, "validation/accuracy": accuracy})


def summary(options: TorchOptions, size: int) -> str:
    """What is run, in one line."""
    loaders = "none" if options.loaderjob == 0 else options.loaderjob or "none (default)"
    return (
        f"run: {options.length}, {size} ranks, batch {options.batchsize}, {options.images.arch}, "
        f"crop {options.images.crop}, {'GPU' if options.gpu else 'CPU'}, {options.backend}, "
        f"loader jobs {loaders}"
    )


def _iterations(options: TorchOptions, per_epoch: int) -> int:
    epochs = options.length.unit == "epoch"
    return options.length.count * per_epoch if epochs else options.length.count


def _interval_or_end(period: float, end: int) -> Callable[[Any], bool]:
    """A trigger every so many iterations, which may be a fraction, and where the length ends."""
    return lambda manager: manager.iteration % period < 1 or manager.iteration == end
