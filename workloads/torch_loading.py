"""The batches of one rank: DataLoaders over the images, epoch after epoch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from . import retuned
    from .image_files import Data
    from .images import Images, rank_order
    from .skipped_images import Skipped
    from .torch_options import TorchOptions
else:  # run by its path: this folder is on sys.path
    import retuned
    from image_files import Data
    from images import Images, rank_order
    from skipped_images import Skipped
    from torch_options import TorchOptions


class Order:
    """A sampler: the numbers of a rank's examples in the epoch that is set.

    Args:
        length: Of the whole dataset.
        rank: This rank's number.
        ranks: How many there are.
        seed: Of the order; ``None``: the same order of the same examples in every epoch.
    """

    def __init__(self, length: int, *, rank: int, ranks: int, seed: int | None) -> None:
        self._share = partial(rank_order, length, rank=rank, ranks=ranks, seed=seed)
        self._length = -(-length // ranks)
        self.epoch = 0

    def __iter__(self) -> Iterator[int]:
        """The numbers, in their order."""
        return iter(self._share(epoch=self.epoch).tolist())

    def __len__(self) -> int:
        """How many there are in an epoch."""
        return self._length


class Loading:
    """This rank's training and validation batches.

    Args:
        options: How many workers load, how they start, and how far ahead.
        data: The images.
        rank: This rank's number.
        ranks: How many there are.
        skipped: Where broken images are noted.
    """

    def __init__(
        self, options: TorchOptions, data: Data, rank: int, ranks: int, skipped: Skipped
    ) -> None:
        crop = options.images.crop
        augmented = Images(data.train, crop, seed=options.seed, skipped=skipped)
        plain = Images(data.test, crop, augment=False, skipped=skipped)
        self._order = Order(len(augmented), rank=rank, ranks=ranks, seed=options.seed)
        self._train = retuned.loader(
            loader(options, augmented, self._order, options.batchsize), **with_workers(options)
        )
        in_order = Order(len(plain), rank=rank, ranks=ranks, seed=None)
        self.validation = loader(options, plain, in_order, options.images.val_batchsize)
        self.iterations_per_epoch = len(self._train)

    def training(self) -> Iterator[Any]:
        """Training batches without end; the workers live through all epochs."""
        while True:
            yield from self._train
            self._order.epoch += 1


def loader(options: TorchOptions, dataset: Images, order: Order, batchsize: int) -> Any:
    """A DataLoader with the workers asked for; ``loaderjob`` of 0 or ``None``: none."""
    from torch.utils.data import DataLoader

    how: dict[str, Any] = {}
    if options.loaderjob:
        how = {
            "num_workers": options.loaderjob,
            "prefetch_factor": options.prefetch,
            **with_workers(options),
        }
    return DataLoader(dataset, batchsize, sampler=order, pin_memory=options.pin_memory, **how)


def with_workers(options: TorchOptions) -> dict[str, Any]:
    """What else is said of a loader that has workers."""
    return {"persistent_workers": True, "multiprocessing_context": options.start_method}
