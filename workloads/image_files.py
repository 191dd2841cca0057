"""Which images there are: files below a folder, or synthetic JPEG bytes.

A source is asked for the bytes of its images, one at a time and in any process; it reads no file
before it is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from trainer_options import WorkloadError

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp")

#: Every n-th image is held out for validation.
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
    """Image files by their paths, each with the number of its class."""

    names: tuple[str, ...]
    labels: NDArray[np.int32]

    def read(self, index: int) -> bytes:
        """Read the image as its file is now; raises ``OSError``."""
        return Path(self.names[index]).read_bytes()

    def name(self, index: int) -> str:
        """Return its path."""
        return self.names[index]

    def part(self, chosen: NDArray[np.bool_]) -> Files:
        """Return those that are chosen, in their order."""
        names = tuple(self.names[index] for index in chosen.nonzero()[0])
        return Files(names, self.labels[chosen])


@dataclass(frozen=True, eq=False)
class SyntheticImages:
    """A few pictures that stand for all: example i is picture i modulo their count.

    Each is decoded and augmented like any file, and another crop of the same picture is another
    example.
    """

    pictures: tuple[bytes, ...]
    labels: NDArray[np.int32]

    def read(self, index: int) -> bytes:
        """Return the JPEG bytes of its picture."""
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


def load(root: Path) -> ImageData:
    """Return the images of a folder, which has a subfolder for each class.

    Every 20th image is held out for validation.

    Raises:
        WorkloadError: It cannot be read, or holds no two images; the message names it.
    """
    names, labels, classes = list[str](), list[int](), 0
    try:
        for folder in sorted(path for path in root.iterdir() if path.is_dir()):
            images = sorted(str(path) for path in folder.iterdir())
            images = [name for name in images if name.lower().endswith(SUFFIXES)]
            names += images
            labels += [classes] * len(images)
            classes += bool(images)
    except OSError as error:
        where = error.filename or root
        raise WorkloadError(f"--data {where}: cannot be read: {error.strerror}") from error
    if len(names) < 2:
        raise WorkloadError(
            f"--data {root}: there are not two images in its subfolders (CLASS/NAME{SUFFIXES[0]})"
        )
    everything = Files(tuple(names), np.array(labels, np.int32))
    held_out = np.arange(len(names)) % HELD_OUT == HELD_OUT - 1
    held_out[-1] |= not held_out.any()
    train, test = everything.part(~held_out), everything.part(held_out)
    return ImageData(train, test, classes, str(root))


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
