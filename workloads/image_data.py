"""The images that the options of a trainer ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from . import image_files, images, made_up_images
    from .image_files import HELD_OUT, Data, ImagesError
    from .image_options import ImageOptions
else:  # run by its path: this folder is on sys.path
    import image_files
    import images
    import made_up_images
    from image_files import HELD_OUT, Data, ImagesError
    from image_options import ImageOptions


def load(options: ImageOptions, seed: int) -> Data:
    """The files that were named, else made-up images; one of each set can be decoded.

    Raises:
        ImagesError: There are none, or none that can be decoded.
    """
    if options.data is None:
        return made_up_images.make(seed)
    data = image_files.load(options.data, options.val)
    if options.val is None and not _is_sound(data):
        # Those that are held out happen to be the broken ones: others are taken.
        others = (image_files.load(options.data, None, shift) for shift in range(1, HELD_OUT))
        data = next(filter(_is_sound, others), data)
    for source in (data.train, data.test):
        images.check(source)
    return data


def _is_sound(data: Data) -> bool:
    """Whether both sets have an image that can be decoded."""
    try:
        for source in (data.train, data.test):
            images.check(source)
    except ImagesError:
        return False
    return True
