from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import chainer_mnist  # noqa: F401 (makes Chainer importable)
import mnist_data
from mnist_data import CACHE
from trainer_options import WorkloadError


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache with a small MNIST, below ``tmp_path``."""
    (tmp_path / CACHE).mkdir(parents=True)
    for name, count in (("train.npz", 30), ("test.npz", 20)):
        images = np.full((count, 784), 255, np.uint8)
        labels = np.arange(count, dtype=np.uint8) % 10
        np.savez_compressed(tmp_path / CACHE / name, x=images, y=labels)
    return tmp_path / CACHE


def test_the_cached_files_are_read(tmp_path: Path, cache: Path) -> None:
    data = mnist_data.load(tmp_path, seed=0)
    assert data.source == f"MNIST from {cache}"
    assert (data.train.images.shape, data.test.images.shape) == ((30, 784), (20, 784))
    assert data.train.labels.dtype == np.int32
    assert data.train.labels[:12].tolist() == [*range(10), 0, 1]
    (cache / "test.npz").unlink()
    assert "synthetic" in mnist_data.load(tmp_path, seed=0).source  # half a cache is none


def test_otherwise_a_synthetic_set_of_the_same_size_and_the_source_says_so(tmp_path: Path) -> None:
    data = mnist_data.load(tmp_path, seed=0)
    assert data.source == f"synthetic (no MNIST in {tmp_path / CACHE})"
    assert (data.train.images.shape, data.test.images.shape) == ((60_000, 784), (10_000, 784))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 cut off", (784, 2), (100, 3)])
def test_a_broken_or_foreign_file_is_named(
    tmp_path: Path, cache: Path, content: bytes | tuple[int, int]
) -> None:
    path = cache / "train.npz"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        pixels, labels = content
        np.savez(path, x=np.zeros((3, pixels), np.uint8), y=np.zeros(labels, np.uint8))
    with pytest.raises(WorkloadError) as caught:
        mnist_data.load(tmp_path, seed=0)
    assert str(path) in str(caught.value)


def test_a_ranks_share_is_what_get_mnist_gives() -> None:
    from chainer.datasets import SubDataset, TupleDataset

    data = mnist_data.synthetic(0, train=50, test=10).train
    order = np.random.default_rng(0).permutation(50)
    share = SubDataset(TupleDataset(data.images, data.labels), 10, 30, order)
    own = mnist_data.own_examples(share)
    assert len(own) == 20
    image, label = own[0]
    assert (image.dtype, image.shape, label.dtype) == (np.float32, (784,), np.int32)
    np.testing.assert_allclose(image, data.images[order[10]] / 255, rtol=1e-6)
    assert label == data.labels[order[10]]
    assert max(example.max() for example, _ in own) <= 1.0
