"""Images of noise over a pattern for each class, as JPEG bytes: no file is needed for them.

A few pictures are encoded once and stand for all: what is read for an example is decoded and
augmented like any file, and another crop of the same picture is another example.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING or __package__:
    from .image_files import Data
else:  # run by its path: this folder is on sys.path
    from image_files import Data

CLASSES = 10
HEIGHT, WIDTH = 400, 500  # pixels; a typical ImageNet photograph has as many

#: Encoding one takes 2 ms and 60 KB, and every worker that is not forked is sent all of them.
PICTURES = 64

TRAIN_EXAMPLES = 5_000
TEST_EXAMPLES = 200

_BLOCK = 50  # pixels that share a colour in a pattern
_NOISE = 32  # of 256 levels; it makes a JPEG file as large as a photograph's
_QUALITY = 90


@dataclass(frozen=True, eq=False)
class MadeUp:
    """Encoded pictures, each taken for many examples: the i-th is picture i modulo their count."""

    pictures: tuple[bytes, ...]
    labels: NDArray[np.int32]

    def read(self, index: int) -> bytes:
        """The JPEG bytes of its picture."""
        return self.pictures[index % len(self.pictures)]

    def name(self, index: int) -> str:
        """What to call it: there is no file."""
        return f"made-up image {index}"


def make(seed: int) -> Data:
    """Training and validation images: the same for the same seed, and easy to learn."""
    generator = np.random.default_rng(seed)
    shape = (CLASSES, HEIGHT // _BLOCK, WIDTH // _BLOCK, 3)
    patterns = generator.integers(0, 256 - _NOISE, shape, dtype=np.uint8)
    pictures = tuple(_encoded(patterns[i % CLASSES], generator) for i in range(PICTURES))
    train, test = (
        MadeUp(pictures, (np.arange(count) % PICTURES % CLASSES).astype(np.int32))
        for count in (TRAIN_EXAMPLES, TEST_EXAMPLES)
    )
    return Data(train, test, CLASSES, f"made-up JPEG images of {WIDTH} x {HEIGHT}")


def _encoded(pattern: NDArray[np.uint8], generator: np.random.Generator) -> bytes:
    # Not by cv2.resize: OpenCV's threads should start in the workers, not before a fork.
    image = pattern.repeat(_BLOCK, axis=0).repeat(_BLOCK, axis=1)
    image = image + generator.integers(0, _NOISE, image.shape, dtype=np.uint8)
    _, encoded = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    return encoded.tobytes()
