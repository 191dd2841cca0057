"""The images that a trainer's options ask for."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from workloads import image_data
from workloads.image_files import Data, Files, ImagesError
from workloads.image_options import ImageOptions


def folder(root: Path, number: int, *broken: int) -> ImageOptions:
    """Options for a folder of JPEGs, some of them empty."""
    sound = cv2.imencode(".jpg", np.zeros((8, 8, 3), np.uint8))[1].tobytes()
    (root / "a").mkdir()
    for index in range(number):
        (root / f"a/{index:02}.jpg").write_bytes(b"" if index in broken else sound)
    return ImageOptions("small", 32, 4, root, None)


def held_out(data: Data) -> list[str]:
    assert isinstance(data.test, Files)
    assert isinstance(data.train, Files)
    assert not {*data.test.names} & {*data.train.names}
    return list(data.test.names)


@pytest.mark.parametrize(
    ("number", "broken", "test"),
    [
        (30, (), ["a/19.jpg"]),
        (30, (19,), ["a/18.jpg"]),
        (30, (18, 19), ["a/17.jpg"]),
        (45, (19,), ["a/19.jpg", "a/39.jpg"]),
        (3, (2,), ["a/01.jpg"]),
        (3, (1, 2), None),
        (2, (), ["a/01.jpg"]),
    ],
)
def test_a_broken_image_that_was_to_be_held_out_refuses_nothing(
    tmp_path: Path, number: int, broken: tuple[int, ...], test: list[str] | None
) -> None:
    options = folder(tmp_path, number, *broken)
    if test is None:
        with pytest.raises(ImagesError, match="no image can be read"):
            image_data.load(options, seed=0)
        return
    data = image_data.load(options, seed=0)
    assert held_out(data) == test
    assert len(data.train.labels) + len(data.test.labels) == number
