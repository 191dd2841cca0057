"""Exports of hostile studies are executed, and must have no effect beyond their own.

``python -m campaigns.exports_inert --count 10000 --seed 1`` for a large round. Every
study has a seed of its own, so ``--first N --count 1`` makes one of them again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import yaml

from tests.study_samples import SPEC, study
from tuner.launch import render
from tuner.launch.launchers import launcher_for
from tuner.launch.secrets import HIDDEN
from tuner.model import (
    BASELINE,
    Choice,
    Env,
    Flag,
    Knob,
    LauncherInfo,
    LauncherOption,
    Setting,
    StudySpec,
    Value,
)
from tuner.model.errors import UsageError
from tuner.results.exporters import container, mpijob, shell
from tuner.results.exporters import json as json_export
from tuner.results.study_view import StudyView

#: Those that there are, ``sh`` only where it is none of the others.
_FOUND = {shutil.which(name): name for name in ("sh", "dash", "bash")}
SHELLS = tuple({os.path.realpath(path): name for path, name in _FOUND.items() if path}.values())

#: What would do something, if anything took it for more than text.
NASTY = (
    "$(touch pwned)", "`touch pwned`", "${OUT}", "$OUT", "$((1+1))", "$'\\n'", "$", "'", '"', "\\",
    "\n", "\r", "\t", "\ntouch pwned\n", "'\ntouch pwned #", '"\ntouch pwned #', ";touch pwned;",
    "&touch pwned&", "|touch pwned", ">pwned", "<(touch pwned)", ">>pwned", "2>pwned", "&&", "||",
    "*", "?", "[a-z]", "{a,b}", "~", "~root", "!!", "!x", "#", " # ", "-n", "--", "-e", "-", "=",
    "%s", "%n", "a=b", ":", " ", "  ", "\x01", "\x1b[31m", "\x7f", "é", "日本", "\u2028", "\u202e",
    "\udcff", "\ufeff", "{{", "}}", "{", "}", "*)", "esac", "EOF", "\\c", "\\0", "=1+1", "@A1", "|",
    "<b>", "[x](http://h)", "![x](http://h)", "x" * 300, "word", "0", "",
)  # fmt: skip

#: The stub in the place of docker: runs what follows the image.
DOCKER = """#!/bin/sh
while [ "$1" != me/job ]; do shift; done
shift
exec "$@"
"""

#: The stub in the place of mpirun: what it was given, as it came.
STUB = """#!/bin/sh
printf '%s\\0' "$MPI4PY_LIBMPI" "$PWD" "$@" >>"$RESULT"
"""


@dataclasses.dataclass(frozen=True)
class Case:
    """A hostile study, and how its script is called."""

    data: StudyView
    out: str
    secrets: tuple[str, ...]


class Place:
    """Folders with hostile names: of programs, and of work."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cwd = self._folder("cwd")
        self.home = self._folder("home")
        self.scripts = self._folder("scripts")
        self.result = self.scripts / "result"
        names = ("plain", "a b", "$(touch pwned)", "'", '"x"', "a\nb", "-n", "*", "é~", "a=b",
                 "`x`")  # fmt: skip
        self.folders = [self._folder(f"in/{name}") for name in names]
        self.programs = self._folder("programs")
        stubs = [folder / name for folder in self.folders for name in ("mpirun", "program")]
        for path in (self.programs / "docker", self.programs / "mpirun", *stubs):
            path.write_text(DOCKER if path.name == "docker" else STUB)
            path.chmod(0o755)
        self.before = self.seen()

    def _folder(self, name: str) -> Path:
        (self.root / name).mkdir(parents=True)
        return self.root / name

    def seen(self) -> set[str]:
        """All that is there, but for our own scripts."""
        folders = (self.cwd, self.home, self.root / "in")
        return {str(path) for folder in folders for path in folder.rglob("*")}


def text(rng: random.Random) -> str:
    return "".join(rng.choices(NASTY, k=rng.randint(1, 3)))


def _escaped(word: str) -> str:
    return word.replace("{", "{{").replace("}", "}}")


def _knobs(rng: random.Random) -> tuple[Knob, ...]:
    def domain() -> Choice:
        values: list[Value] = [text(rng), "unset" if rng.random() < 0.1 else text(rng)]
        return Choice((*values, rng.randint(-3, 99)) if rng.random() < 0.3 else tuple(values))

    options = ("--flag", "--flag=", "-f")
    placed = domain()
    return (
        Knob("variable", domain(), Env(("T_ONE", "T_TWO"))),
        Knob("placed", placed, Flag(), default=placed.values[0]),  # blanks beside it need one
        Knob("argument", domain(), Flag(rng.choice(options))),
        Knob("bind_to", Choice(("none", "core")), LauncherOption("bind_to")),
    )


def _spec(rng: random.Random, place: Place) -> StudySpec:
    mpi = rng.choice(place.folders)
    mpis = (
        ("openmpi", "5.0.11"),
        ("openmpi", "4.1.6"),
        ("mpich", "4.2.3"),
        ("intelmpi", "2021.13"),
    )
    kind, version = rng.choice(mpis)
    extra = tuple(text(rng) for _ in range(rng.randint(0, 2)))
    info = LauncherInfo(kind, str(mpi / "mpirun"), version, str(mpi / "libmpi.so"), extra)
    words = [_escaped(text(rng)) for _ in range(rng.randint(0, 3))]
    words += [f"{_escaped(text(rng))}{{placed}}{_escaped(text(rng))}", "{out}", "--log={out}/log"]
    words += rng.choice(([], ["--password", HIDDEN], [f"--u=a://b:{HIDDEN}@c", f"X={HIDDEN}"]))
    rng.shuffle(words)
    program = _escaped(str(rng.choice(place.folders) / "program"))
    template = (program, *words)
    return dataclasses.replace(
        SPEC,
        name=rng.choice(("study", text(rng)[:80])),
        command=template,
        job=rng.choice(((), (*template, "--whole"))),
        launcher=info,
        knobs=_knobs(rng),
        folder=rng.choice(("", str(rng.choice(place.folders)))),
    )


def case(rng: random.Random, place: Place) -> Case:
    """One hostile study; the same random numbers give the same."""
    spec = _spec(rng, place)
    values = {
        knob.name: rng.choice(knob.domain.values)
        for knob in spec.knobs
        if isinstance(knob.domain, Choice) and rng.random() < 0.9
    }
    best = Setting.of(values or {"argument": "x"})
    data = study({BASELINE: 3.0, best: 1.0}, spec)
    out = text(rng).replace("/", "_")[:100].lstrip(".").replace("\n", " ") or "out"
    secrets = tuple(text(rng) or "x" for _ in range(8))
    return Case(data, out, secrets)


def _expected(it: Case, place: Place, *, inside: bool) -> tuple[str, ...]:
    """What mpirun must be given, also in a container: as the launch renders it, nothing quoted."""
    spec, setting = it.data.spec, it.data.best_setting
    template = spec.job or spec.command
    unset, assigned = render.assignments(spec, setting, template)
    words = [
        *(w for name in unset for w in ("-u", name)),
        *(f"{n}={v}" for n, v in assigned.items()),
    ]
    folder = str(place.cwd / it.out) if spec.folder or inside else it.out
    job = render.program_argv(spec, setting, out=folder, template=template)
    if "=" in job[0]:
        job = ("sh", "-c", 'exec "$@"', "sh", *job)
    options = render.launcher_options(spec, setting)
    program = (*(("env", *words) if words else ()), *job)
    argv = launcher_for(spec.launcher.kind).argv(spec.launcher, spec.layout, options, program)
    left = iter(it.secrets)
    with_secrets = (re.sub(re.escape(HIDDEN), lambda _: next(left), word) for word in argv[1:])
    libmpi = launcher_for(spec.launcher.kind).environment(spec.launcher).get("MPI4PY_LIBMPI", "")
    if inside:
        return ("", str(place.cwd), *with_secrets)
    return (libmpi, spec.folder or str(place.cwd), *with_secrets)


def check_manifests(data: StudyView) -> None:
    """What another program runs: the words of the job are those that were measured."""
    document = json.loads(json_export.export(data).text)
    assert document["best"]["arguments"] == list(render.arguments(data.spec, data.best_setting))
    assert document["best"]["setting"] == data.best_setting.as_dict()
    manifest = yaml.safe_load(mpijob.manifest(data).text)
    launcher = manifest["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    job = render.program_argv(
        data.spec, data.best_setting, out="/out", template=data.spec.job or data.spec.command
    )
    values = {"$$": "$", "$(OUT)": "/out"}
    given = "\0".join(launcher["command"])
    given = re.sub(r"\$\$|\$\(\w+\)", lambda found: values.get(found[0], HIDDEN), given)
    assert given.endswith("\0".join(job))


def scripts(it: Case, place: Place) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Per script of one case its text, and what it must write."""
    found = {
        "sh": (shell.script(it.data).text, _expected(it, place, inside=False)),
        "container": (container.script(it.data).text, _expected(it, place, inside=True)),
    }
    arguments = render.arguments(it.data.spec, it.data.best_setting)
    line = f'set -- {shell.arguments(it.data).text}printf \'%s\\0\' "$@" >>"$RESULT"\n'
    if arguments:
        found["args"] = (line, arguments)
    try:
        sourced = shell.environment(it.data).text
    except UsageError:
        return found
    _, assigned = render.assignments(it.data.spec, it.data.best_setting)
    # docker --env-file: whole lines, nothing unquoted
    lines = (line for line in sourced.split("\n") if line and not line.startswith("#"))
    assert dict(line.split("=", 1) for line in lines) == assigned
    path = place.scripts / "sourced"
    path.write_bytes(os.fsencode(sourced))
    shown = "".join(f' "{name}=${name}"' for name in assigned)
    said = f"set -a\n. {path}\nset +a\n"
    said += f"printf '%s\\0'{shown} >>\"$RESULT\"\n" if shown else ""
    found["env"] = (said, tuple(f"{name}={value}" for name, value in assigned.items()))
    return found


def check_scripts(it: Case, place: Place) -> int:
    """Run the scripts of a case in every shell; returns how many were run."""
    ran = 0
    search = f"{place.programs}:{os.environ['PATH']}"
    env = {"PATH": search, "HOME": str(place.home), "LC_ALL": "C.UTF-8", "IMAGE": "me/job"}
    env |= {f"TUNE_SECRET_{n}": value for n, value in enumerate(it.secrets, start=1)}
    env["RESULT"] = str(place.result)
    for kind, (content, words) in scripts(it, place).items():
        path = place.scripts / f"script.{kind}"
        path.write_bytes(os.fsencode(content))
        want = b"".join(os.fsencode(word) + b"\0" for word in words)
        for name in SHELLS:
            place.result.write_bytes(b"")
            done = subprocess.run(
                [name, path, it.out], cwd=place.cwd, env=env, capture_output=True, check=False
            )
            assert (done.returncode, done.stderr) == (0, b""), (name, kind, done)
            got = place.result.read_bytes()
            assert got == want, f"{name}, {kind}: {got!r} is not {want!r}"
            ran += 1
    new = place.seen() - place.before
    assert new == {str(place.cwd / it.out)}, f"its output folder is not all that is new: {new}"
    (place.cwd / it.out).rmdir()
    return ran


def main(count: int, seed: int, first: int = 0) -> int:
    """Make and run so many exports; returns the number of scripts that were run."""
    ran = 0
    with tempfile.TemporaryDirectory() as root:
        place = Place(Path(root))
        for number in range(first, first + count):
            it = case(random.Random(f"{seed}/{number}"), place)
            try:
                check_manifests(it.data)
                ran += check_scripts(it, place)
            except AssertionError as error:
                error.add_note(f"--seed {seed} --first {number} --count 1")
                raise
    return ran


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    scripts_run = main(given.count, given.seed, given.first)
    print(f"{given.count} studies, {scripts_run} scripts in {SHELLS}: no effect beyond their own")
