"""MNIST from the cache, or made up."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from workloads import compat, mnist_data
from workloads.mnist_data import CACHE, DataError, Examples

compat.install()


def write_cache(root: Path, *, train: int = 30, test: int = 20) -> None:
    (root / CACHE).mkdir(parents=True)
    for name, count in (("train.npz", train), ("test.npz", test)):
        images = np.full((count, 784), 255, np.uint8)
        np.savez_compressed(root / CACHE / name, x=images, y=np.arange(count, dtype=np.uint8) % 10)


def test_the_cached_files_are_taken_where_they_lie(tmp_path: Path) -> None:
    write_cache(tmp_path)
    data = mnist_data.load(tmp_path, seed=0)
    assert data.source == f"MNIST from {tmp_path / CACHE}"
    assert (data.train.images.shape, data.test.images.shape) == ((30, 784), (20, 784))
    assert data.train.labels.dtype == np.int32
    assert data.train.labels[:12].tolist() == [*range(10), 0, 1]


def test_else_a_synthetic_set_of_the_same_size_and_the_source_says_so(tmp_path: Path) -> None:
    data = mnist_data.load(tmp_path, seed=0)
    assert data.source == f"synthetic (no MNIST in {tmp_path / CACHE})"
    assert data.train.images.shape == (60_000, 784)
    assert data.train.images.dtype == np.dtype("uint8")
    assert (data.test.images.shape, data.test.labels.shape) == ((10_000, 784), (10_000,))
    assert list(tmp_path.iterdir()) == []


def test_half_a_cache_is_none(tmp_path: Path) -> None:
    write_cache(tmp_path)
    (tmp_path / CACHE / "test.npz").unlink()
    assert "synthetic" in mnist_data.load(tmp_path, seed=0).source


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 cut off"])
def test_a_broken_file_is_named(tmp_path: Path, content: bytes) -> None:
    write_cache(tmp_path)
    path = tmp_path / CACHE / "train.npz"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        mnist_data.load(tmp_path, seed=0)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "arrays",
    [
        {"x": np.zeros((3, 784), np.uint8)},
        {"x": np.zeros((3, 100), np.uint8), "y": np.zeros(3, np.uint8)},
        {"x": np.zeros((3, 784), np.uint8), "y": np.zeros(2, np.uint8)},
    ],
)
def test_a_foreign_file_is_named(tmp_path: Path, arrays: dict[str, NDArray[np.uint8]]) -> None:
    write_cache(tmp_path)
    path = tmp_path / CACHE / "train.npz"
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    path.write_bytes(buffer.getvalue())
    with pytest.raises(DataError, match=r"train\.npz"):
        mnist_data.load(tmp_path, seed=0)


def same(one: Examples, other: Examples) -> bool:
    return bool(
        np.array_equal(one.images, other.images) and np.array_equal(one.labels, other.labels)
    )


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
