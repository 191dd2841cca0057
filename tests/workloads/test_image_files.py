"""Which image files a folder stands for."""

from __future__ import annotations

from pathlib import Path

import pytest

from image_files import Files, load
from trainer_options import WorkloadError


def touch(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
    return root


def names_of(root: Path, source: object) -> list[str]:
    assert isinstance(source, Files)
    return [str(Path(name).relative_to(root)) for name in source.names]


def test_subfolders_are_classes_and_every_twentieth_image_is_held_out(tmp_path: Path) -> None:
    touch(tmp_path, "b/2.JPG", "b/1.png", "b/notes.txt", "a/3.jpeg", "loose.jpg", "empty/x.txt")
    data = load(tmp_path)
    assert names_of(tmp_path, data.train) == ["a/3.jpeg", "b/1.png"]
    assert names_of(tmp_path, data.test) == ["b/2.JPG"], "one at least"
    assert (data.train.labels.tolist(), data.classes) == ([0, 1], 2)
    assert data.train.read(0) == b"x" and data.train.name(0) == str(tmp_path / "a/3.jpeg")
    touch(tmp_path, *(f"a/{number:02}.jpg" for number in range(42)))
    assert names_of(tmp_path, load(tmp_path).test) == ["a/19.jpg", "a/38.jpg"]


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
        load(root)
    assert str(caught.value).startswith(f"--data {root}: ") and words in str(caught.value)
