"""The images that the options of a trainer ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from . import image_files, images, made_up_images
    from .image_files import Data
    from .image_options import ImageOptions
else:  # run by its path: this folder is on sys.path
    import image_files
    import images
    import made_up_images
    from image_files import Data
    from image_options import ImageOptions


def load(options: ImageOptions, seed: int) -> Data:
    """The files that were named, else made-up images; one of each set can be decoded.

    Raises:
        ImagesError: There are none, or none that can be decoded.
    """
    if options.data is None:
        return made_up_images.make(seed)
    data = image_files.load(options.data, options.val)
    for source in (data.train, data.test):
        images.check(source)
    return data
