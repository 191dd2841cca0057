"""The program of a study: is it there, where does it run, and what is the study called?

All of it is checked before the first launch, so that no study fails 50 times.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from tuner.hosts.typed_paths import typed_path
from tuner.knobs import space
from tuner.launch import command as templates
from tuner.model import Knob
from tuner.model.errors import UsageError, suggestion

#: The imports of the shipped trainers. A name begins with that of the extra that installs them.
_IMPORTS: Mapping[str, tuple[str, ...]] = {
    "chainer_mnist": ("numpy", "chainer", "mpi4py"),
    "chainer_imagenet": ("numpy", "chainer", "mpi4py", "cv2"),
    "mpi_stencil": ("numpy", "mpi4py"),
    "numpy_training": ("numpy",),
    "torch_ddp": ("numpy", "torch", "pytorch_pfn_extras", "cv2"),
}

#: Runs a program in its output folder, as an option of ``env``.
IN_OUT = f"--chdir={{{templates.OUT}}}"

_PYTHON = re.compile(r"(python|pypy)[\d.]*")
SHELL = re.compile(r"(ba|da|k|z)?sh")
#: A larger program is not read, bytes.
MOST_BYTES = 10 << 20
#: Options of ``python`` that take the next word as their value.
_OPTIONS_WITH_VALUE = ("-X", "-W", "--check-hash-based-pycs")
#: Modules that run the script named after them.
_RUNNERS = ("mpi4py", "mpi4py.run")


def check(template: Sequence[str], *, environ: Mapping[str, str], cwd: Path) -> str:
    """Return the program's path, once it and its script are known to be there.

    The path is absolute, with its links: that of a virtual environment must not become the path
    of the Python that it was made from.
    """
    path = _program_path(template[0], environ, cwd)
    script = script_of(template)
    if script is None:
        return path
    if script.startswith("{workloads}/"):
        _check_shipped(script.removeprefix("{workloads}/"), is_own_python=path == sys.executable)
    elif (
        not templates.names_in(script)
        and not typed_path(templates.fill(script, {}), "the command's script", cwd).is_file()
    ):
        raise UsageError(
            f"the command's script {script!r} does not exist",
            f"relative paths count from the current folder, {cwd}",
        )
    return path


def _program_path(word: str, environ: Mapping[str, str], cwd: Path) -> str:
    """Return the path of the program that a command begins with; ``UsageError``: it cannot run."""
    if word == "{python}":
        return sys.executable
    if templates.names_in(word):
        raise UsageError(
            f"the command begins with {word!r}: only {{python}} can stand for the program",
            "name the program itself first",
        )
    word = templates.fill(word, {})
    path = typed_path(word, "the command's program", cwd)
    remedy = f"write python {word}" if word.endswith(".py") else f"write ./{word}"
    if "/" not in word:
        if on_path := shutil.which(word, path=environ.get("PATH", os.defpath)):
            return str(Path(on_path).absolute())
        hint = "is its environment active? its full path works as well"
        raise UsageError(
            f"the command's program {word!r} is not on PATH",
            f"it lies in the current folder: {remedy}" if path.is_file() else hint,
        )
    if not path.is_file():
        fault = "is a folder" if path.is_dir() else "does not exist"
        raise UsageError(
            f"the command's program {word!r} {fault}",
            f"relative paths count from the current folder, {cwd}",
        )
    if not os.access(path, os.X_OK):
        raise UsageError(
            f"the command's program {word!r} is not executable",
            remedy if word.endswith(".py") else f"chmod +x {word}",
        )
    return str(path)


def _check_shipped(name: str, *, is_own_python: bool) -> None:
    """Raise ``UsageError`` if there is no such trainer, or if our own Python lacks its imports."""
    trainer = name.removesuffix(".py")
    if trainer not in _IMPORTS:
        trainers = [f"{shipped}.py" for shipped in _IMPORTS]
        raise UsageError(f"there is no workload {name!r}", suggestion(name, trainers))
    needed = _IMPORTS.get(trainer, ()) if is_own_python else ()
    if missing := [module for module in needed if find_spec(module) is None]:
        extra = trainer.partition("_")[0]
        before, option = "", ""
        if extra == "chainer":  # its source package cannot be built by a newer setuptools
            before, option = "echo 'setuptools<81' >old.txt; ", "--build-constraint old.txt "
        raise UsageError(
            f"the workload {name} needs {' and '.join(missing)}, not installed here",
            f"{before}pip install {option}'runtime-tuner[{extra}]'\n"
            "Or tune your own trainer: tune --mpi-procs 8 -- python train.py --out {out}",
        )


def with_path(template: Sequence[str], first: str, path: str) -> tuple[str, ...]:
    """Return the template with the program's own path for its first word, if that is ``first``.

    A bare ``python`` would mean another program wherever PATH is another one.
    """
    if not template or template[0] != first or first == "{python}":
        return tuple(template)
    return (literal(path), *template[1:])


def in_out_folder(template: Sequence[str], cwd: Path) -> tuple[str, ...]:
    """Return the template run in ``{out}``, each path made absolute; an empty one stays empty.

    A path is a word that begins with ``./`` or ``../``; without placeholders, also an existing file
    with a slash in its name, and the script: Python's ``.py`` file, or a program's first argument.
    """
    script, words = script_of(template) if template else "", []
    option, module = python_target(template) if template else ("", "")
    module_path = module.replace(".", "/")
    for file in (f"{module_path}.py", f"{module_path}/__main__.py") if option else ():
        if typed_path(file, "-m", cwd).is_file():
            raise UsageError(
                f"--run-in-out: the module {module!r} lies in the current folder, {cwd}, and Python"
                " would not find it from another one",
                f"name the script in place of -m {module}: {file}",
            )
    for position, word in enumerate(template):
        option, is_set, value = word.rpartition("=") if word.startswith("-") else ("", "", word)
        is_path = value.startswith(("./", "../"))
        if not is_path and not value.startswith("/") and not templates.names_in(value):
            path = cwd / templates.fill(value, {})
            with suppress(OSError):  # a program of awk may be too long for a name
                is_script = position == 1 or word == script
                is_path = path.is_file() if is_script else "/" in value and path.exists()
        absolute = f"{literal(str(cwd))}/{value.removeprefix('./')}" if is_path else value
        words.append(f"{option}{is_set}{absolute}")
    return (literal(shutil.which("env") or "/usr/bin/env"), IN_OUT, *words) if words else ()


def literal(text: str) -> str:
    """Return the text as a word of a template."""
    return text.replace("{", "{{").replace("}", "}}")


def script_of(template: Sequence[str]) -> str | None:
    """Return the ``.py`` file that a command gives to a Python; ``None`` if there is none."""
    option, name = python_target(template)
    return name if not option and name.endswith(".py") else None


def python_target(template: Sequence[str]) -> tuple[str, str]:
    """Return ``("-m", MODULE)`` or ``("", FILE)`` that an interpreter runs; empty if none does."""
    template = template[2:] if IN_OUT in template[1:2] else template  # behind `env --chdir={out}`
    if template[0] != "{python}" and not _PYTHON.fullmatch(PurePosixPath(template[0]).name):
        return "", ""
    words = iter(template[1:])
    for word in words:
        if word == "-m":
            if (name := next(words, "")) not in _RUNNERS:
                return "-m", name
        elif word in _OPTIONS_WITH_VALUE:
            next(words, "")
        elif not word.startswith("-"):
            return "", word
        elif word == "-c":
            break
    return "", ""


def fingerprints(
    command: Sequence[str], folder: Path, knobs: Sequence[Knob] = ()
) -> tuple[tuple[str, str], ...]:
    """Return the script, or else the program, that a command runs, with its SHA-256.

    There are several if a knob is a part of its name, and none if it cannot be read or is large.
    """
    option, name = python_target(command)
    names = [name or command[0]]
    if option:
        names = [f"{name.replace('.', '/')}{end}" for end in (".py", "/__main__.py")]
    elif SHELL.fullmatch(PurePosixPath(command[0]).name):
        names = [word for word in command[1:] if not word.startswith("-")][:1]
    choices = {knob.name: [*map(str, space.values(knob.domain))] for knob in knobs}
    digests = {}
    for name in names:
        places = templates.names_in(name)
        for values in itertools.product(*(choices.get(place, ()) for place in places)):
            file = templates.fill(name, dict(zip(places, values, strict=True)))
            with suppress(OSError):  # what stands behind `sh -c` may be too long for a name
                if (path := folder / file).is_file() and path.stat().st_size <= MOST_BYTES:
                    digests[file] = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    return tuple(digests.items())


def stem(template: Sequence[str]) -> str:
    """Return a name for the program: of its script, its module, else of the program itself."""
    _, name = python_target(template)
    program = PurePosixPath(name or template[0]).name.removesuffix(".py")
    return as_name(program) or "study"


def check_name(name: str, place: str = "name") -> str:
    """Return the name of a study, given at ``place``, if a folder and a typed word can have it."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise UsageError(
            f"{place} {name!r} is not a name for a study",
            "up to 100 letters, digits, and . _ - after the first, such as mnist-n8",
        )
    return name


def as_name(text: str) -> str:
    """Return the text with all that a name cannot have replaced or cut off; may be empty."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text).strip("._-")
