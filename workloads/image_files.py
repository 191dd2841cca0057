"""Which images there are: files below a folder or in a list, or JPEG bytes made up here.

A source is asked for the bytes of its images, one at a time and in any process; it needs
neither Chainer nor PyTorch, and reads no image before it is asked.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp")

#: Without a validation set of its own, every n-th image is held out for it.
HELD_OUT = 20


class ImagesError(Exception):
    """Why there are no images to train with: one line for the user."""


class Source(Protocol):
    """Labelled images, encoded."""

    @property
    def labels(self) -> NDArray[np.int32]:
        """The class of each image."""
        ...

    def read(self, index: int) -> bytes:
        """One image, encoded; raises ``OSError``."""
        ...

    def name(self, index: int) -> str:
        """What to call that image."""
        ...


@dataclass(frozen=True, eq=False)
class Files:
    """Image files: ``names`` are paths relative to ``root`` (or absolute)."""

    root: Path
    names: tuple[str, ...]
    labels: NDArray[np.int32]

    def read(self, index: int) -> bytes:
        """The file as it is now; raises ``OSError``."""
        path = self.root / self.names[index]
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe never ends, and nor does /dev/zero
            raise OSError(errno.EINVAL, "is not a file", str(path))
        return path.read_bytes()

    def name(self, index: int) -> str:
        """Its path, on one line."""
        path = str(self.root / self.names[index])
        return path if path.isprintable() else ascii(path)

    def part(self, indices: NDArray[np.intp]) -> Files:
        """Some of them, in that order."""
        names = tuple(self.names[index] for index in indices)
        return Files(self.root, names, self.labels[indices])


@dataclass(frozen=True)
class Data:
    """Training and validation images; ``classes`` is how many labels there can be."""

    train: Source
    test: Source
    classes: int
    words: str


def load(data: Path, validation: Path | None, shift: int = 0) -> Data:
    """The images of a folder with a subfolder for each class, or of a list file.

    A line of a list is ``PATH LABEL``, as in Chainer's ImageNet example; relative paths count
    from the list's folder. Without a validation set every 20th image is held out, each ``shift``
    places before where it usually stands.

    Raises:
        ImagesError: It cannot be read, or holds no images; the message names it.
    """
    train, classes = _open(data, "--data", None)
    if validation is None:
        everything = np.arange(len(train.names))
        held_out = (everything + shift) % HELD_OUT == HELD_OUT - 1
        if not held_out.any():
            held_out[-1 - shift % len(held_out)] = True
        if held_out.all():
            raise ImagesError(f"--data {data}: holds one image; training needs two or more")
        train, test = train.part(everything[~held_out]), train.part(everything[held_out])
    else:
        test, _ = _open(validation, "--val", classes)
    count = 1 + int(max(train.labels.max(), test.labels.max()))
    words = f"{data}" if validation is None else f"{data} and {validation}"
    return Data(train, test, max(count, len(classes or ())), words)


def _open(
    path: Path, flag: str, classes: tuple[str, ...] | None
) -> tuple[Files, tuple[str, ...] | None]:
    """The files of a folder or list, and the folder's classes."""
    try:
        if path.is_dir():
            return _of_folder(path, flag, classes)
        return _of_list(path, flag), None
    except OSError as error:
        where = error.filename or path
        raise ImagesError(f"{flag} {where}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ImagesError(f"{flag} {path}: is neither a folder nor a list in UTF-8") from error


def _of_folder(
    root: Path, flag: str, classes: tuple[str, ...] | None
) -> tuple[Files, tuple[str, ...]]:
    with os.scandir(root) as entries:
        folders = sorted(entry.name for entry in entries if entry.is_dir())
    found = {folder: _images_in(root / folder) for folder in folders}
    if not any(found.values()):
        raise ImagesError(
            f"{flag} {root}: there are no images in it (CLASS/NAME{SUFFIXES[0]})"
            f"{_elsewhere(root, folders)}"
        )
    own = tuple(folder for folder in folders if found[folder])
    known = classes if classes is not None else own
    if unknown := sorted(set(own) - set(known)):
        raise ImagesError(f"{flag} {root}: the class {unknown[0]!r} is not one of --data")
    names = [(f"{folder}/{name}", known.index(folder)) for folder in own for name in found[folder]]
    labels = np.array([label for _, label in names], np.int32)
    return Files(root, tuple(name for name, _ in names), labels), known


def _elsewhere(root: Path, folders: list[str]) -> str:
    """Where they lie instead, a level above or below that of the classes."""
    if _images_in(root):
        return ": its images lie in no folder of a class"
    for folder in folders:
        with os.scandir(root / folder) as entries:
            inner = sorted(entry.name for entry in entries if entry.is_dir())
        if any(_images_in(root / folder / name) for name in inner):
            return f"; {root / folder} has such folders"
    return ""


def _images_in(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(
            entry.name
            for entry in entries
            if entry.name.lower().endswith(SUFFIXES) and (entry.is_file() or entry.is_symlink())
        )


def _of_list(path: Path, flag: str) -> Files:
    names, labels = [], []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        name, _, label = line.strip().rpartition(" ")
        if not name or not label.isdecimal() or len(label) > 6:
            raise ImagesError(
                f"{flag} {path}, line {number}: {line.strip()[:60]!r} is not PATH LABEL"
            )
        names.append(name.rstrip())
        labels.append(int(label))
    if not names:
        raise ImagesError(f"{flag} {path}: lists no images")
    return Files(path.parent, tuple(names), np.array(labels, np.int32))
