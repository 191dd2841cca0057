"""Which images there are: files below a folder or in a list, or synthetic JPEG bytes.

A source is asked for the bytes of its images, one at a time and in any process; it reads no file
before it is asked.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from trainer_options import WorkloadError

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp")

#: Without a validation set of its own, every n-th image is held out for it.
HELD_OUT = 20

#: Of the synthetic images.
CLASSES = 10
HEIGHT, WIDTH = 400, 500  # pixels; a typical ImageNet photograph has as many
TRAIN_EXAMPLES, TEST_EXAMPLES = 5_000, 200
PICTURES = 64  # encoding one takes 2 ms and 60 KB, and a spawned worker is sent all of them
_BLOCK = 50  # pixels that share a colour in a pattern
_NOISE = 32  # of 256 levels; it makes a JPEG file as large as a photograph's
_QUALITY = 90


@dataclass(frozen=True, eq=False)
class Files:
    """Image files: ``names`` are paths relative to ``root`` (or absolute), ``labels`` classes."""

    root: Path
    names: tuple[str, ...]
    labels: NDArray[np.int32]

    def read(self, index: int) -> bytes:
        """Read the image as its file is now; raises ``OSError``."""
        return (self.root / self.names[index]).read_bytes()

    def name(self, index: int) -> str:
        """Return its path."""
        return str(self.root / self.names[index])

    def part(self, indices: NDArray[np.intp]) -> Files:
        """Some of them, in that order."""
        names = tuple(self.names[index] for index in indices)
        return Files(self.root, names, self.labels[indices])


@dataclass(frozen=True, eq=False)
class SyntheticImages:
    """A few pictures that stand for all: example i is picture i modulo their count.

    Each is decoded and augmented like any file, and another crop of the same picture is another
    example.
    """

    pictures: tuple[bytes, ...]
    labels: NDArray[np.int32]

    def read(self, index: int) -> bytes:
        """The JPEG bytes of its picture."""
        return self.pictures[index % len(self.pictures)]

    def name(self, index: int) -> str:
        """What to call it: there is no file."""
        return f"synthetic image {index}"


#: Labelled images, encoded.
Source = Files | SyntheticImages


@dataclass(frozen=True)
class ImageData:
    """Training and validation images; ``classes`` is how many labels there can be."""

    train: Source
    test: Source
    classes: int
    words: str

    def __str__(self) -> str:
        return f"data: {self.words}, {len(self.train.labels)} + {len(self.test.labels)} images"


def load(data: Path, validation: Path | None) -> ImageData:
    """The images of a folder with a subfolder for each class, or of a list file.

    A line of a list is ``PATH LABEL``, as in Chainer's ImageNet example; relative paths count
    from the list's folder. Without a validation set every 20th image is held out.

    Raises:
        WorkloadError: It cannot be read, or holds no images; the message names it.
    """
    train, classes = _open(data, "--data", ())
    if validation is None:
        if len(train.names) < 2:
            raise WorkloadError(f"--data {data}: holds one image; training needs two or more")
        everything = np.arange(len(train.names))
        held_out = everything % HELD_OUT == HELD_OUT - 1
        held_out[-1] |= not held_out.any()
        train, test = train.part(everything[~held_out]), train.part(everything[held_out])
    else:
        test, _ = _open(validation, "--val", classes)
    count = 1 + int(max(train.labels.max(), test.labels.max()))
    words = f"{data}" if validation is None else f"{data} and {validation}"
    return ImageData(train, test, max(count, len(classes)), words)


def _open(path: Path, flag: str, classes: tuple[str, ...]) -> tuple[Files, tuple[str, ...]]:
    """The files of a folder or list, and the folder's classes: ``classes``, if there are any."""
    try:
        return _of_folder(path, flag, classes) if path.is_dir() else (_of_list(path, flag), ())
    except OSError as error:
        where = error.filename or path
        raise WorkloadError(f"{flag} {where}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise WorkloadError(f"{flag} {path}: is neither a folder nor a list in UTF-8") from error


def _of_folder(root: Path, flag: str, classes: tuple[str, ...]) -> tuple[Files, tuple[str, ...]]:
    with os.scandir(root) as entries:
        folders = sorted(entry.name for entry in entries if entry.is_dir())
    names = []
    for folder in folders:
        with os.scandir(root / folder) as entries:
            found = sorted(entry.name for entry in entries if not entry.is_dir())
        names += [(folder, name) for name in found if name.lower().endswith(SUFFIXES)]
    if not names:
        raise WorkloadError(
            f"{flag} {root}: there are no images in its subfolders (CLASS/NAME{SUFFIXES[0]})"
        )
    own = tuple(dict.fromkeys(folder for folder, _ in names))
    number = {folder: index for index, folder in enumerate(classes or own)}
    if unknown := [folder for folder in own if folder not in number]:
        raise WorkloadError(f"{flag} {root}: the class {unknown[0]!r} is not one of --data")
    labels = np.array([number[folder] for folder, _ in names], np.int32)
    return Files(root, tuple(f"{folder}/{name}" for folder, name in names), labels), tuple(number)


def _of_list(path: Path, flag: str) -> Files:
    names, labels = [], []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        name, _, label = line.strip().rpartition(" ")
        if not name or not label.isdecimal() or len(label) > 6:
            text = f"{line.strip()[:60]!r} is not PATH LABEL"
            raise WorkloadError(f"{flag} {path}, line {number}: {text}")
        names.append(name.rstrip())
        labels.append(int(label))
    if not names:
        raise WorkloadError(f"{flag} {path}: lists no images")
    return Files(path.parent, tuple(names), np.array(labels, np.int32))


def synthetic(seed: int) -> ImageData:
    """Noise over a pattern for each class: the same for the same seed, and easy to learn."""
    generator = np.random.default_rng(seed)
    shape = (CLASSES, HEIGHT // _BLOCK, WIDTH // _BLOCK, 3)
    patterns = generator.integers(0, 256 - _NOISE, shape, dtype=np.uint8)
    pictures = tuple(_encoded(patterns[i % CLASSES], generator) for i in range(PICTURES))
    train, test = (
        SyntheticImages(pictures, (np.arange(count) % PICTURES % CLASSES).astype(np.int32))
        for count in (TRAIN_EXAMPLES, TEST_EXAMPLES)
    )
    return ImageData(train, test, CLASSES, f"synthetic JPEG images of {WIDTH} x {HEIGHT}")


def _encoded(pattern: NDArray[np.uint8], generator: np.random.Generator) -> bytes:
    # Not by cv2.resize: OpenCV's threads should start in the workers, not before a fork.
    image = pattern.repeat(_BLOCK, axis=0).repeat(_BLOCK, axis=1)
    image = image + generator.integers(0, _NOISE, image.shape, dtype=np.uint8)
    _, encoded = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    return encoded.tobytes()
