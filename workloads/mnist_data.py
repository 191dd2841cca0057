"""MNIST as bytes: from Chainer's data cache, or a synthetic set of the same shape and size.

Nothing is ever downloaded. The images stay bytes until they are scattered, which moves a
quarter of the data; :func:`own_examples` then makes of a rank's share what
``chainer.datasets.get_mnist`` gives: float32 images of 784 values in 0..1, int32 labels.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer_options import WorkloadError

PIXELS = 784
CLASSES = 10
TRAIN_EXAMPLES = 60_000
TEST_EXAMPLES = 10_000

#: Where ``chainer.datasets.get_mnist`` keeps its files, below the dataset root.
CACHE = Path("pfnet", "chainer", "mnist")


@dataclass(frozen=True)
class Examples:
    """``images``: uint8, n by 784; ``labels``: int32, n."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int32]


@dataclass(frozen=True)
class Mnist:
    """Both sets, and where they come from, in words."""

    train: Examples
    test: Examples
    source: str


def load(root: Path, seed: int) -> Mnist:
    """Return the cached MNIST below ``root`` (Chainer's dataset root), else a synthetic one.

    Raises:
        WorkloadError: A cached file is broken or holds something else.
    """
    train, test = (root / CACHE / name for name in ("train.npz", "test.npz"))
    if train.exists() and test.exists():
        return Mnist(_cached(train), _cached(test), f"MNIST from {root / CACHE}")
    return synthetic(seed, source=f"synthetic (no MNIST in {root / CACHE})")


def synthetic(
    seed: int, *, train: int = TRAIN_EXAMPLES, test: int = TEST_EXAMPLES, source: str = "synthetic"
) -> Mnist:
    """Ten patterns under noise: the same for the same seed, and easy to learn."""
    generator = np.random.default_rng(seed)
    patterns = generator.integers(0, 128, (CLASSES, PIXELS), dtype=np.uint8)
    examples, held_out = (_noisy(patterns, count, generator) for count in (train, test))
    return Mnist(examples, held_out, source)


def _noisy(patterns: NDArray[np.uint8], count: int, generator: np.random.Generator) -> Examples:
    labels = generator.integers(0, CLASSES, count, dtype=np.int32)
    noise = np.frombuffer(generator.bytes(count * PIXELS), np.uint8).reshape(count, PIXELS)
    noise = noise >> np.uint8(1)
    return Examples(noise + patterns[labels], labels)


def _cached(path: Path) -> Examples:
    try:
        with np.load(path) as arrays:
            images, labels = arrays["x"], arrays["y"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise WorkloadError(f"{path} cannot be read ({error}); remove or mend it") from error
    if images.ndim != 2 or images.shape[1] != PIXELS or labels.shape != images.shape[:1]:
        raise WorkloadError(
            f"{path} is not Chainer's MNIST: x is {images.shape}, y {labels.shape}; remove it"
        )
    return Examples(images.astype(np.uint8, copy=False), labels.astype(np.int32))


def own_examples(share: Any) -> Any:
    """Return a rank's scattered share as a dataset of its own, in the types of ``get_mnist``.

    ``scatter_dataset`` leaves the whole set in every rank, and a worker that is not forked
    would be sent all of it.
    """
    from chainer.dataset import concat_examples
    from chainer.datasets import TupleDataset

    images, labels = concat_examples(share[:])
    return TupleDataset(images.astype(np.float32) / np.float32(255), labels.astype(np.int32))
