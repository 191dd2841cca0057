"""The image data: what is decoded and augmented, and what broken files do to it."""

from __future__ import annotations

import pickle
import struct
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import image_files
import images
from image_files import Files
from images import Images, rank_order
from trainer_options import ImageOptions, WorkloadError

SYNTHETIC = image_files.synthetic(0)

#: A PNG that claims more pixels than OpenCV takes.
_HEADER = b"IHDR" + struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
BOMB = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + _HEADER
BOMB += struct.pack(">I", zlib.crc32(_HEADER)) + struct.pack(">I", 0) + b"IDAT\x35\xaf\x06\x1e"


def jpeg(height: int = 40, width: int = 50, value: int = 100) -> bytes:
    _, encoded = cv2.imencode(".jpg", np.full((height, width, 3), value, np.uint8))
    return encoded.tobytes()


def folder_of(tmp_path: Path, contents: list[bytes]) -> Files:
    names = tuple(f"{number}.jpg" for number in range(len(contents)))
    for name, content in zip(names, contents, strict=True):
        (tmp_path / name).write_bytes(content)
    return Files(tmp_path, names, np.arange(len(contents), dtype=np.int32))


def test_synthetic_images_are_a_seeds_own_and_each_is_a_real_jpeg() -> None:
    again, other = image_files.synthetic(0), image_files.synthetic(1)
    assert again.train.read(70) == SYNTHETIC.train.read(70) == SYNTHETIC.train.read(70 - 64)
    assert other.train.read(70) != again.train.read(70)
    assert images.decoded(again.train.read(9)).shape == (400, 500, 3)
    assert again.train.labels.max() + 1 == again.classes == 10
    assert (len(again.train.labels), len(again.test.labels)) == (5000, 200)


@settings(max_examples=25, deadline=None)
@given(
    number=st.integers(0, 20_000), seed=st.integers(0, 2**31 - 1), crop=st.sampled_from([1, 32, 97])
)
def test_an_example_depends_on_seed_index_and_epoch_alone(
    number: int, seed: int, crop: int
) -> None:
    one, other = (Images(SYNTHETIC.train, crop, seed=seed) for _ in range(2))
    other[number + 1]  # what was made before plays no part
    pixels, label = one[number]
    again, _ = pickle.loads(pickle.dumps(other))[number]
    assert np.array_equal(pixels, again)
    assert (pixels.shape, pixels.dtype) == ((3, crop, crop), np.dtype("float32"))
    assert pixels.nbytes == one.example_bytes
    assert label == SYNTHETIC.train.labels[number % 5000] and label.dtype == np.dtype("int32")


def test_another_epoch_and_another_seed_are_other_pixels_of_the_same_image() -> None:
    dataset, other = Images(SYNTHETIC.train, 32), Images(SYNTHETIC.train, 32, seed=1)
    pixels, label = dataset[7]
    for again, same_label in (dataset[7 + 5000], other[7]):
        assert same_label == label and not np.array_equal(pixels, again)
    validation = Images(SYNTHETIC.test, 32, augment=False)
    assert np.array_equal(validation[3][0], validation[3 + 200][0])


@settings(max_examples=50, deadline=None)
@given(height=st.integers(1, 60), width=st.integers(1, 60), seed=st.integers(0, 99))
def test_images_of_any_size_become_examples(height: int, width: int, seed: int) -> None:
    image = np.full((height, width, 3), 100, np.uint8)
    generator = np.random.default_rng(seed)
    top, left, box_height, box_width = images.random_box(height, width, generator)
    assert 0 <= top <= top + box_height <= height and box_height >= 1
    assert 0 <= left <= left + box_width <= width and box_width >= 1
    for made in (images.augmented(image, 24, generator), images.centre(image, 24)):
        assert made.shape == (24, 24, 3)
        assert np.all(made == 100)  # reflected at its borders, not filled with black


def test_red_comes_first_and_black_is_what_imagenets_mean_makes_of_it() -> None:
    red = np.zeros((2, 2, 3), np.uint8)
    red[:, :, 2] = 255
    pixels = images.normalized(red)
    assert pixels[:, 0, 0].tolist() == pytest.approx([2.2489, -2.0357, -1.8044], abs=1e-3)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is empty"),
        (jpeg()[:300], "it cannot be decoded"),
        (BOMB, "OpenCV refuses it"),
        (None, "No such file or directory"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, content: bytes | None, why: str) -> None:
    dataset = Images(folder_of(tmp_path, [jpeg(), jpeg()]), 8, augment=False)
    path = tmp_path / "1.jpg"
    path.unlink() if content is None else path.write_bytes(content)
    assert dataset[0][1] == 0
    with pytest.raises(WorkloadError) as caught:
        dataset[1]
    assert str(caught.value).startswith(f"{path}: ")
    assert why in str(caught.value) or content == BOMB


def test_the_first_image_of_each_set_is_tried_before_a_job(tmp_path: Path) -> None:
    folder_of(tmp_path, [b"", jpeg()])
    listing = tmp_path / "list"
    listing.write_text("0.jpg 0\n1.jpg 1\n")
    with pytest.raises(WorkloadError, match=r"0\.jpg: it is empty"):
        images.load(ImageOptions(data=listing, val=listing))
    listing.write_text("1.jpg 1\n")
    assert images.load(ImageOptions(data=listing, val=listing)).classes == 2
    assert images.load(ImageOptions(data=None, seed=0)).words == SYNTHETIC.words


@given(length=st.integers(1, 50), ranks=st.integers(1, 9), epoch=st.integers(0, 3))
def test_the_ranks_shares_are_equal_and_cover_all(length: int, ranks: int, epoch: int) -> None:
    shares = [
        rank_order(length, rank=rank, ranks=ranks, epoch=epoch, seed=5) for rank in range(ranks)
    ]
    assert len({len(share) for share in shares}) == 1
    assert {int(number) for share in shares for number in share} == {
        number + epoch * length for number in range(length)
    }


def test_each_epoch_has_another_order_and_no_seed_none() -> None:
    first, second = (rank_order(50, rank=0, ranks=1, epoch=e, seed=5) - 50 * e for e in (0, 1))
    assert not np.array_equal(first, second)
    assert rank_order(5, rank=1, ranks=2).tolist() == [1, 3, 0]
