"""The image data of the shipped trainers: decoded and augmented by OpenCV, in the workers.

An example depends on the seed, its index and the epoch alone, whatever process makes it. The
epoch travels in the index: ``index + epoch * len(images)``, which is what :func:`rank_order`
gives to an iterator or a sampler. Chainer and PyTorch use the same class; it imports neither.

OpenCV's number of threads is never set here: ``OPENCV_FOR_THREADS_NUM`` decides, otherwise OpenCV.
With OpenCV 5 only :func:`affine` runs on them. Of the 3.5 ms of CPU time that an example of 500 x
400 pixels takes, it has 2; decoding has 1.2, on one thread. Eight threads on two cores take a
fifth more CPU time than one.
"""

from __future__ import annotations

import math
from argparse import Namespace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

import image_files
from image_files import ImageData, Source
from trainer_options import WorkloadError

Image = NDArray[np.uint8]

#: Of ImageNet's pixels in 0..1, red, green, blue: He et al. 2015 and all since.
MEAN = np.array([0.485, 0.456, 0.406], np.float32).reshape(3, 1, 1)
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32).reshape(3, 1, 1)

#: The sizes to which a validation image is scaled and cropped, 256 and 224, as a ratio.
SCALED_TO_CROP = 256 / 224

_ANGLE = 10.0  # degrees, each way
_SCALE = 0.1  # of the size, each way
_SHIFT = 0.05  # of the size, each way
_AREA = (0.35, 1.0)  # share of an image that a random crop has
_ASPECT = (3 / 4, 4 / 3)  # width over height of a random crop


def load(options: Namespace) -> ImageData:
    """Return the files that were named, otherwise synthetic images; the first can be decoded.

    Raises:
        WorkloadError: There are none, or the first cannot be decoded.
    """
    if options.data is None:
        return image_files.synthetic(options.seed)
    data = image_files.load(options.data)
    for source in (data.train, data.test):
        Images(source, 8, augment=False)[0]
    return data


class Images:
    """A dataset: ``images[i]`` is a float32 array of (3, crop, crop) and an int32 label.

    The images of ``source`` are augmented by a random affine, crop and flip; otherwise their middle
    is taken. ``crop`` is the height and width of an example in pixels.
    """

    def __init__(self, source: Source, crop: int, *, seed: int = 0, augment: bool = True) -> None:
        self._source = source
        self._crop = crop
        self._seed = seed
        self._augment = augment

    def __len__(self) -> int:
        """Return how many images there are."""
        return len(self._source.labels)

    @property
    def example_bytes(self) -> int:
        """The size of one example's array."""
        return 3 * self._crop**2 * MEAN.itemsize

    def __getitem__(self, number: int) -> tuple[NDArray[np.float32], np.int32]:
        """Make one example; ``number`` is its index plus the epoch times the length.

        Raises:
            WorkloadError: Its image cannot be read or decoded.
        """
        epoch, index = divmod(int(number), len(self))
        try:
            image = decoded(self._source.read(index))
            if self._augment:
                generator = np.random.default_rng((self._seed, epoch, index))
                image = augmented(image, self._crop, generator)
            else:
                image = centre(image, self._crop)
        except (OSError, ValueError, cv2.error) as error:
            why = getattr(error, "err", None) or getattr(error, "strerror", None) or error
            raise WorkloadError(f"{self._source.name(index)}: {why}") from error
        return normalized(image), self._source.labels[index]


def decoded(data: bytes) -> Image:
    """Pixels of an encoded image: (height, width, 3), blue first, as OpenCV has it.

    Raises:
        ValueError: It is empty, cut off or no image.
    """
    if not data:
        raise ValueError("it is empty")
    image: Any = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    if image is None:
        raise ValueError("it cannot be decoded")
    return np.asarray(image, np.uint8)


def augmented(image: Image, crop: int, generator: np.random.Generator) -> Image:
    """Turn and scale the whole image at random, then flip a random crop of it at the right size."""
    image = affine(image, generator)
    top, left, height, width = random_box(image.shape[0], image.shape[1], generator)
    part = image[top : top + height, left : left + width]
    part = np.asarray(cv2.resize(part, (crop, crop), interpolation=cv2.INTER_LINEAR), np.uint8)
    return part[:, ::-1] if generator.random() < 0.5 else part


def affine(image: Image, generator: np.random.Generator) -> Image:
    """Turn, scale and shift an image a little; its size stays."""
    height, width = image.shape[:2]
    angle = generator.uniform(-_ANGLE, _ANGLE)
    scale = generator.uniform(1 - _SCALE, 1 + _SCALE)
    matrix = cv2.getRotationMatrix2D((width / 2, height / 2), angle, scale)
    matrix[0, 2] += width * generator.uniform(-_SHIFT, _SHIFT)
    matrix[1, 2] += height * generator.uniform(-_SHIFT, _SHIFT)
    moved = cv2.warpAffine(
        image, matrix, (width, height), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101
    )
    return np.asarray(moved, np.uint8)


def random_box(
    height: int, width: int, generator: np.random.Generator
) -> tuple[int, int, int, int]:
    """Top, left, height and width of a crop, as GoogLeNet's training took them.

    Its area is a random share of the image, its aspect ratio lies around 1 (Szegedy et al. 2014).
    """
    area = height * width * generator.uniform(*_AREA)
    aspect = math.exp(generator.uniform(math.log(_ASPECT[0]), math.log(_ASPECT[1])))
    box_width = min(width, max(1, round(math.sqrt(area * aspect))))
    box_height = min(height, max(1, round(math.sqrt(area / aspect))))
    top = int(generator.integers(0, height - box_height + 1))
    left = int(generator.integers(0, width - box_width + 1))
    return top, left, box_height, box_width


def centre(image: Image, crop: int) -> Image:
    """Return the middle square of an image, at the right size: what a validation image is."""
    side = max(1, round(min(image.shape[:2]) / SCALED_TO_CROP))
    top, left = ((length - side) // 2 for length in image.shape[:2])
    part = image[top : top + side, left : left + side]
    return np.asarray(cv2.resize(part, (crop, crop), interpolation=cv2.INTER_AREA), np.uint8)


def normalized(image: Image) -> NDArray[np.float32]:
    """Red first, channels first, about -2..3: what the networks are given."""
    channels = np.ascontiguousarray(image[:, :, ::-1].transpose(2, 0, 1), np.float32)
    return (channels * np.float32(1 / 255) - MEAN) / DEVIATION


def rank_order(
    length: int, *, rank: int, ranks: int, epoch: int = 0, seed: int | None = None
) -> NDArray[np.intp]:
    """Return the numbers of a rank's examples in one epoch; each rank has as many.

    Every rank draws the same order of all and takes its own of it; what is missing for equal
    shares is taken from the start. ``seed`` of ``None`` leaves them in order.
    """
    order = np.arange(length)
    if seed is not None:
        order = np.random.default_rng((seed, epoch)).permutation(length)
    share = np.resize(order, -(-length // ranks) * ranks)[rank::ranks]
    return np.asarray(share + epoch * length, np.intp)
