"""The image data: its files, what is decoded and augmented, what broken files do to it."""

from __future__ import annotations

import pickle
from argparse import Namespace
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import image_files
import images
from images import Images, rank_order
from trainer_options import WorkloadError

SYNTHETIC = image_files.synthetic(0)


def jpeg() -> bytes:
    _, encoded = cv2.imencode(".jpg", np.full((40, 50, 3), 100, np.uint8))
    return encoded.tobytes()


def test_an_example_depends_on_seed_index_and_epoch_alone() -> None:
    one, other = (Images(SYNTHETIC.train, 32, seed=3) for _ in range(2))
    other[6]  # what was made before plays no part
    pixels, label = one[5007]
    again, _ = pickle.loads(pickle.dumps(other))[5007]
    assert np.array_equal(pixels, again)
    assert pixels.shape == (3, 32, 32) and pixels.dtype == np.float32
    assert pixels.nbytes == one.example_bytes
    assert label == SYNTHETIC.train.labels[7] and label.dtype == np.int32
    for changed in (one[7], Images(SYNTHETIC.train, 32, seed=4)[5007]):
        assert changed[1] == label and not np.array_equal(pixels, changed[0])
    validation = Images(SYNTHETIC.test, 32, augment=False)
    assert np.array_equal(validation[3][0], validation[3 + 200][0])


@settings(max_examples=20, deadline=None)
@given(height=st.integers(1, 60), width=st.integers(1, 60), seed=st.integers(0, 99))
def test_images_of_any_size_become_examples(height: int, width: int, seed: int) -> None:
    image = np.full((height, width, 3), 100, np.uint8)
    generator = np.random.default_rng(seed)
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
        (None, "No such file or directory"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, content: bytes | None, why: str) -> None:
    (tmp_path / "class").mkdir()
    path = tmp_path / "class/0.jpg"
    for name in ("0.jpg", "1.jpg"):
        path.with_name(name).write_bytes(jpeg())
    options = Namespace(data=tmp_path)
    dataset = Images(images.load(options).train, 8)
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(WorkloadError) as caught:
        dataset[0]
    assert str(caught.value) == f"{path}: {why}"
    if content is not None:  # the first image of each set is tried before a job
        with pytest.raises(WorkloadError, match=why):
            images.load(options)


@settings(max_examples=20)
@given(length=st.integers(1, 50), ranks=st.integers(1, 9), epoch=st.integers(0, 3))
def test_the_ranks_shares_are_equal_and_cover_all(length: int, ranks: int, epoch: int) -> None:
    shares = [
        rank_order(length, rank=rank, ranks=ranks, epoch=epoch, seed=5) for rank in range(ranks)
    ]
    assert len({len(share) for share in shares}) == 1
    assert {int(number) for share in shares for number in share} == {
        number + epoch * length for number in range(length)
    }
    assert rank_order(5, rank=1, ranks=2).tolist() == [1, 3, 0], "without a seed in their order"


# --- which files a folder stands for -------------------------------------------------------


def touch(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
    return root


def names_of(root: Path, source: object) -> list[str]:
    assert isinstance(source, image_files.Files)
    return [str(Path(name).relative_to(root)) for name in source.names]


def test_subfolders_are_classes_and_every_twentieth_image_is_held_out(tmp_path: Path) -> None:
    touch(tmp_path, "b/2.JPG", "b/1.png", "b/notes.txt", "a/3.jpeg", "loose.jpg", "empty/x.txt")
    data = image_files.load(tmp_path)
    assert names_of(tmp_path, data.train) == ["a/3.jpeg", "b/1.png"]
    assert names_of(tmp_path, data.test) == ["b/2.JPG"], "one at least"
    assert (data.train.labels.tolist(), data.classes) == ([0, 1], 2)
    assert data.train.read(0) == b"x" and data.train.name(0) == str(tmp_path / "a/3.jpeg")
    touch(tmp_path, *(f"a/{number:02}.jpg" for number in range(42)))
    assert names_of(tmp_path, image_files.load(tmp_path).test) == ["a/19.jpg", "a/38.jpg"]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], "cannot be read: No such file or directory"),
        (["1.jpg", "a/notes.txt", "a/1.jpg"], "there are not two images in its subfolders"),
    ],
)
def test_a_folder_without_images_is_named(tmp_path: Path, names: list[str], words: str) -> None:
    root = touch(tmp_path / "my images", *names)
    with pytest.raises(WorkloadError) as caught:
        image_files.load(root)
    assert str(caught.value).startswith(f"--data {root}: ") and words in str(caught.value)
