"""Which image files a folder or a list stands for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from image_files import Files, load
from trainer_options import WorkloadError


def touch(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return root


def names_of(source: object) -> tuple[str, ...]:
    assert isinstance(source, Files)
    return source.names


def refusal(data: Path, validation: Path | None = None) -> str:
    with pytest.raises(WorkloadError) as caught:
        load(data, validation)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_subfolders_are_classes_and_other_files_are_left_out(tmp_path: Path) -> None:
    touch(tmp_path, "b/2.JPG", "b/1.png", "b/notes.txt", "a/3.jpeg", "loose.jpg", "empty/x.txt")
    data = load(tmp_path, touch(tmp_path / "val", "b/9.jpg"))
    assert names_of(data.train) == ("a/3.jpeg", "b/1.png", "b/2.JPG")
    assert data.train.labels.tolist() == [0, 1, 1]
    assert (names_of(data.test), data.test.labels.tolist()) == (("b/9.jpg",), [1])
    assert data.classes == 2
    assert data.train.read(0) == b"x" and data.train.name(0) == str(tmp_path / "a/3.jpeg")


@pytest.mark.parametrize(
    ("number", "held_out"), [(45, ("a/19.jpg", "a/39.jpg")), (2, ("a/01.jpg",))]
)
def test_without_a_validation_set_every_twentieth_image_is_held_out(
    tmp_path: Path, number: int, held_out: tuple[str, ...]
) -> None:
    names = [f"a/{each:02}.jpg" for each in range(number)]
    data = load(touch(tmp_path, *names), None)
    assert names_of(data.test) == held_out
    assert {*names_of(data.train)} == {*names} - {*held_out}


def test_a_list_names_paths_from_its_own_folder(tmp_path: Path) -> None:
    listing = tmp_path / "train.txt"
    listing.write_text("a/with space.jpg 3\n\n/abs/b.jpg 0\n")
    touch(tmp_path, "a/with space.jpg")
    data = load(listing, listing)
    assert names_of(data.train) == ("a/with space.jpg", "/abs/b.jpg")
    assert data.train.labels.dtype == np.int32 and data.train.labels.tolist() == [3, 0]
    assert data.classes == 4
    assert data.train.read(0) == b"x" and data.train.name(1) == "/abs/b.jpg"


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["1.jpg", "a/notes.txt"], "there are no images in its subfolders (CLASS/NAME.jpg)"),
        (["a/1.jpg"], "holds one image; training needs two or more"),
    ],
)
def test_a_folder_without_images_is_named(tmp_path: Path, names: list[str], words: str) -> None:
    text = refusal(touch(tmp_path / "my images", *names))
    assert text.startswith(f"--data {tmp_path / 'my images'}: ") and words in text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "lists no images"),
        (b"a.jpg 0\nb.jpg\n", "line 2: 'b.jpg' is not PATH LABEL"),
        (b"a.jpg -1\n", "line 1: 'a.jpg -1' is not PATH LABEL"),
        (b"a.jpg 99999999\n", "line 1: 'a.jpg 99999999' is not PATH LABEL"),
        (b"\xff\xd8\xff\xe0", "is neither a folder nor a list in UTF-8"),
    ],
)
def test_a_list_that_cannot_be_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    listing = tmp_path / "list.txt"
    listing.write_bytes(content)
    text = refusal(listing)
    assert str(listing) in text and words in text


def test_what_is_not_there_or_a_class_that_only_validation_has_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert refusal(missing) == f"--data {missing}: cannot be read: No such file or directory"
    data, validation = touch(tmp_path / "data", "a/1.jpg"), touch(tmp_path / "val", "c/1.jpg")
    assert refusal(data, validation) == f"--val {validation}: the class 'c' is not one of --data"
