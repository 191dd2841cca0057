"""Study files: TOML to a checked model, every mistake reported at once with its place.

Relative paths in a study file mean what they would mean in the shell that starts ``tune``:
they are looked up from the current folder. ``{workloads}`` stands for the shipped trainers.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from tuner.config.spec import RunOptions, build_spec
from tuner.config.study_file.mistakes import check
from tuner.config.study_file.schema import KnobEntry, ObjectiveEntry, StudyFile
from tuner.config.study_file.template import template
from tuner.launch.command import shipped_dir
from tuner.model.errors import UsageError, suggestion

__all__ = [
    "KnobEntry",
    "ObjectiveEntry",
    "RunOptions",
    "StudyFile",
    "build_spec",
    "find_study_file",
    "load",
    "parse",
    "shipped_studies",
    "template",
]

#: Taken up by itself where it lies in the current folder.
LOCAL_NAME = "tune.toml"
DEFAULT_STUDY = "chainer_mnist"


def shipped_studies() -> dict[str, Path]:
    """The study files that come with the tool, by name."""
    return {path.stem: path for path in sorted(shipped_dir("studies").glob("*.toml"))}


def find_study_file(
    given: str | None, *, cwd: Path, has_command: bool = False
) -> tuple[StudyFile | None, str]:
    """The study file to use and how to name it to the user.

    In this order: ``given`` (a path, or the name of a shipped study), ``tune.toml`` in
    ``cwd``, and the shipped ``chainer_mnist`` unless a command was typed.

    Raises:
        UsageError: There is no such file, or it has mistakes.
    """
    shipped = shipped_studies()
    if given is None:
        if (cwd / LOCAL_NAME).is_file():
            return load(cwd / LOCAL_NAME), LOCAL_NAME
        if has_command:
            return None, "command line"
        return _shipped(DEFAULT_STUDY, shipped)
    path = cwd / given
    # A folder of that name is where an earlier `tune` in this place left its launches.
    name = path.name if path.is_dir() else given.removesuffix(".toml")
    if path.exists() and not (path.is_dir() and name in shipped):
        return load(path), given
    if name not in shipped:
        raise UsageError(
            f"--study: there is no file {given!r} and no shipped study of that name.",
            f"{suggestion(name, shipped)} `tune init {name}.toml` writes a new one.",
        )
    return _shipped(name, shipped)


def _shipped(name: str, shipped: Mapping[str, Path]) -> tuple[StudyFile, str]:
    return load(shipped[name]), f"{name}.toml (shipped)"


def load(path: Path) -> StudyFile:
    """Read a study file.

    Raises:
        UsageError: It cannot be read, is not TOML (line and column), or holds mistakes: all
            of them, each with its place.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"The study file {path} cannot be read: {error.strerror}.",
            "`tune init` writes a new one.",
        ) from error
    return parse(data, str(path))


def parse(data: bytes, place: str) -> StudyFile:
    """The study that the content of a file describes; errors name the ``place``.

    Raises:
        UsageError: As :func:`load`.
    """
    try:
        document = tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UsageError(f"{place}: not a text in UTF-8.", "Save it as UTF-8.") from error
    except (ValueError, RecursionError) as error:
        fault = error if isinstance(error, tomllib.TOMLDecodeError) else "too long or too deep"
        raise UsageError(f"{place}: not TOML: {fault}.", "`tune init` shows the format.") from error
    mistakes, model = check(document)
    if model is None or mistakes:
        head = f"{place} has a mistake:" if len(mistakes) == 1 else f"{place} has mistakes:"
        raise UsageError("\n".join([head, *mistakes]), "`tune init` shows the format.")
    return model
