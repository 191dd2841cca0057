"""The program of a study: is it there, where does it run, and what is the study called?

All of it is checked before the first launch, so that no study fails 50 times.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import TypedDict

from tuner.hosts.typed_paths import typed_path
from tuner.launch import command as templates
from tuner.model.errors import UsageError, suggestion

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

#: What the shipped trainers import; the first word of a name is that of an extra, too.
_IMPORTS: Mapping[str, tuple[str, ...]] = {
    "chainer_mnist": ("numpy", "chainer", "mpi4py"),
    "chainer_imagenet": ("numpy", "chainer", "mpi4py", "cv2"),
    "mpi_stencil": ("numpy", "mpi4py"),
    "torch_ddp": ("numpy", "torch", "pytorch_pfn_extras", "cv2"),
}

#: The shipped trainers' options that name what to read.
_READ = ("--data", "--val")

#: Runs a program in its output folder, as an option of ``env``.
IN_OUT = f"--chdir={{{templates.OUT}}}"

_PYTHON = re.compile(r"(python|pypy)[\d.]*")
#: Options of ``python`` that take the next word as their value.
_WITH_VALUE = ("-X", "-W", "--check-hash-based-pycs")
#: Modules that run the script named after them.
_RUNNERS = ("mpi4py", "mpi4py.run")


def check(template: Sequence[str], *, environ: Mapping[str, str], cwd: Path) -> str:
    """The program's path, once it and its script are known to be there.

    Returns:
        The absolute path of the first word, links not resolved: the ``bin`` folder of a
        virtual environment stays what it is.

    Raises:
        UsageError: The program, its script or a shipped trainer's needs are missing.
    """
    path = _program(template[0], environ, cwd)
    script = script_of(template)
    if script is None:
        return path
    if script.startswith("{workloads}/"):
        _check_shipped(script.removeprefix("{workloads}/"), own_python=path == sys.executable)
        return path
    place = "the command's script"
    if (
        not templates.names_in(script)
        and not typed_path(templates.fill(script, {}), place, cwd).is_file()
    ):
        raise UsageError(
            f"the command's script {script!r} does not exist",
            f"relative paths count from the current folder, {cwd}",
        )
    return path


def _resolved(template: Sequence[str], first: str, path: str) -> tuple[str, ...]:
    """The template with the program's own path for its first word, if that is ``first``.

    A bare ``python`` would mean another program wherever PATH is another one.
    """
    if not template or template[0] != first or first == "{python}":
        return tuple(template)
    return (_literal(path), *template[1:])


def _literal(text: str) -> str:
    """The text as a word of a template."""
    return text.replace("{", "{{").replace("}", "}}")


class Program(TypedDict):
    """Fields of :class:`tuner.model.StudySpec`."""

    command: tuple[str, ...]
    job: tuple[str, ...]
    folder: str
    interpreter: str


def fields(
    template: Sequence[str], job: Sequence[str], path: str, cwd: Path, *, runs_in_out: bool
) -> Program:
    """What is run, and where it is.

    Args:
        template: The command.
        job: The whole job, empty if that is the command.
        path: What :func:`check` said.
        cwd: The current folder.
        runs_in_out: It runs in ``{out}``.
    """
    run, whole = (_resolved(words, template[0], path) for words in (template, job))
    if runs_in_out:
        run, whole = _in_out(run, cwd), _in_out(whole, cwd)
    return Program(
        command=run,
        job=whole,
        folder=folder_of(template, job, cwd),
        interpreter=sys.executable if "python" in templates.placeholders((*template, *job)) else "",
    )


def _in_out(template: Sequence[str], cwd: Path) -> tuple[str, ...]:
    """The template run in ``{out}``; :func:`_anchored` says which words mean what they meant.

    Raises:
        UsageError: It runs a module of the current folder, which Python would not find.
    """
    if not template:
        return ()
    option, name = _python_target(template)
    if option == "-m":
        _refuse_module_of(cwd, name)
    script, words = script_of(template), []
    for place, word in enumerate(template):
        option, is_set, value = word.rpartition("=") if word.startswith("-") else ("", "", word)
        is_script = place == 1 or word == script
        words.append(f"{option}{is_set}{_anchored(value, cwd, is_script=is_script)}")
    return (_literal(shutil.which("env") or "/usr/bin/env"), IN_OUT, *words)


def _anchored(word: str, cwd: Path, *, is_script: bool = False) -> str:
    """A path from ``cwd`` made absolute; any other word as it is.

    A path is what begins with ``./`` or ``../``, also with placeholders after it. Of words without
    placeholders it is what has another slash, if it is there, and a script that is a file: the
    ``.py`` file that Python is given, or the first argument of any program.
    """
    if word.startswith(("./", "../")):
        return f"{_literal(str(cwd))}/{word.removeprefix('./')}"
    if templates.names_in(word):
        return word
    path = cwd / templates.fill(word, {})
    with suppress(OSError):  # a program of awk may be too long for a name
        if path.is_file() if is_script else "/" in word and path.exists():
            return _literal(str(path))
    return word


def _refuse_module_of(cwd: Path, name: str) -> None:
    for file in (f"{name.replace('.', '/')}.py", f"{name.replace('.', '/')}/__main__.py"):
        if typed_path(file, "-m", cwd).is_file():
            raise UsageError(
                f"--run-in-out: the module {name!r} lies in the current folder, {cwd}, and Python"
                " would not find it from another one",
                f"name the script in place of -m {name}: {file}",
            )


def folder_of(template: Sequence[str], job: Sequence[str], cwd: Path) -> str:
    """Where the program runs: ``cwd``; empty if the folder cannot matter.

    It cannot matter to a shipped trainer that is not told where its data lies.
    """
    shipped = (script_of(template) or "").startswith("{workloads}/")
    names_its_data = any(word.partition("=")[0] in _READ for word in (*template, *job))
    return "" if shipped and not names_its_data else str(cwd)


def _program(word: str, environ: Mapping[str, str], cwd: Path) -> str:
    if word == "{python}":
        return sys.executable
    if templates.names_in(word):
        raise UsageError(
            f"the command begins with {word!r}: only {{python}} can stand for the program",
            "name the program itself first",
        )
    word = templates.fill(word, {})
    path = typed_path(word, "the command's program", cwd)
    if "/" not in word:
        on_path = shutil.which(word, path=environ.get("PATH", os.defpath))
        if on_path is None:
            hint = "is its environment active? its full path works as well"
            if path.is_file():
                hint = f"it lies in the current folder: write {_start(word)}"
            raise UsageError(f"the command's program {word!r} is not on PATH", hint)
        return str(Path(on_path).absolute())
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise UsageError(
            f"the command's program {word!r} {what}",
            f"relative paths count from the current folder, {cwd}",
        )
    if not os.access(path, os.X_OK):
        raise UsageError(
            f"the command's program {word!r} is not executable",
            f"write {_start(word)}." if word.endswith(".py") else f"chmod +x {word}",
        )
    return str(path)


def _start(word: str) -> str:
    return f"python {word}" if word.endswith(".py") else f"./{word}"


def _check_shipped(name: str, *, own_python: bool) -> None:
    """A shipped trainer must be there, and what it imports, in our own interpreter."""
    trainer = name.removesuffix(".py")
    if not (templates.shipped_dir("workloads") / name).is_file():
        trainers = [f"{shipped}.py" for shipped in _IMPORTS]
        raise UsageError(f"there is no workload {name!r}", suggestion(name, trainers))
    needed = _IMPORTS.get(trainer, ()) if own_python else ()
    missing = [module for module in needed if find_spec(module) is None]
    if missing:
        extra, *_ = trainer.split("_")
        raise UsageError(
            f"the workload {name} needs {' and '.join(missing)}, which "
            f"{'is' if len(missing) == 1 else 'are'} not installed",
            "in a checkout: pip install --build-constraint constraints-build.txt "
            f"'.[{extra}]'\n"
            "Or tune your own trainer: tune --mpi-procs 8 -- python train.py --out {out}",
        )


def script_of(template: Sequence[str]) -> str | None:
    """The ``.py`` file that an interpreter is given; ``None`` if there is none to see."""
    option, name = _python_target(template)
    return name if not option and name.endswith(".py") else None


def _python_target(template: Sequence[str]) -> tuple[str, str]:
    """``("-m", MODULE)`` or ``("", FILE)`` that an interpreter runs; empty if it is no such."""
    template = template[2:] if IN_OUT in template[1:2] else template
    if template[0] != "{python}" and not _PYTHON.fullmatch(PurePosixPath(template[0]).name):
        return "", ""
    words = iter(template[1:])
    for word in words:
        if word == "-m":
            if (name := next(words, "")) not in _RUNNERS:
                return "-m", name
        elif word in _WITH_VALUE:
            next(words, "")
        elif not word.startswith("-"):
            return "", word
        elif word == "-c":
            break
    return "", ""


def stem(template: Sequence[str]) -> str:
    """A name for the program: of its script, its module, else of the program itself."""
    name = script_of(template)
    if name is None and "-m" in template[1:-1]:
        name = template[list(template).index("-m") + 1]
    bare = PurePosixPath(name or template[0]).name.removesuffix(".py")
    return as_name(bare) or "study"


def check_name(name: str, place: str = "name") -> str:
    """The name of a study: of a folder, and a word on the command line.

    Raises:
        UsageError: It could not be a folder's name or would be taken for an option;
            ``place`` says where it was given.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{place} {name!r} is not a name for a study",
            "up to 100 letters, digits, and . _ - after the first, such as mnist-n8",
        )
    return name


def as_name(text: str) -> str:
    """The text with all that a name cannot have replaced or cut off; may be empty."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text).strip("._-")
