"""Installs what a bare GPU machine lacks, says what works, tunes each part, and writes the table.

    python3 -m benchmarks.gpu [PART ...] [--seconds 540] [--output build/gpu/results]

Every step has a limit, and none stops the others. `--no-device` does the same on CPUs, tiny.
"""

from __future__ import annotations

import argparse
import os
import shutil
import site
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.gpu import checks, processes
from benchmarks.gpu.parts import PARTS, ROOT, Part
from tuner.hosts.process import SupervisedCommand

VENV = ROOT / "build" / "gpu" / "venv"

#: Kept for the table, and for what is written of each part, s; a part with less shows nothing.
END_S, WRITE_S, LEAST_S = 10.0, 6.0, 25.0
#: Limits of installing, of all checks together, and of each command that writes results, s.
INSTALL_S, CHECKS_S, LAST_S = 90.0, 75.0, 20.0
#: Of a part's time the search has this share; warm-up and confirmation come on top.
SEARCH_SHARE = 0.4


class Run:
    """One run: its clock, its folder, and what it did."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.ends_at: float = time.monotonic() + options.seconds
        self.folder: Path = options.output.absolute()
        self.has_device: bool = options.device
        self.python = str(options.python or VENV / "bin" / "python")
        programs = Path(self.python).absolute().parent
        self.env = {**os.environ, "PATH": f"{programs}:{os.environ.get('PATH', '')}",
                    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                    "PYTHONPATH": ""}  # fmt: skip
        self.tune = str(programs / "tune")

    @property
    def left_s(self) -> float:
        """The time that is left for parts."""
        return self.ends_at - END_S - time.monotonic()

    def say(self, text: str) -> None:
        """Print a line with the seconds that are left, and keep it."""
        line = f"[{self.ends_at - time.monotonic():4.0f} s left] {text}"
        print(line, flush=True)
        with (self.folder / "run.log").open("a") as log:
            log.write(f"{line}\n")

    def do(self, name: str, argv: Sequence[str], limit_s: float, log: str) -> bool:
        """Run a command and end what it leaves; return whether it ended well."""
        begun = time.monotonic()
        try:
            command = processes.start(argv, self.folder / log, self.env, ROOT)
            fault = processes.wait(command, limit_s)
        except OSError as error:
            fault = str(error)
        took = f"{time.monotonic() - begun:.1f} s"
        self.say(f"{name}: {f'{fault} (see {log})' if fault else 'ok'}, {took}")
        return not fault

    def install(self, wheels: Path) -> bool:
        """Make an environment that sees this Python's packages, after the carried ones."""
        pip = [sys.executable, "-m", "pip", "--python", self.python, "install", "--quiet"]
        pip += ["--no-index", "--no-deps", "--no-compile"]
        tuner = [*pip, "--no-build-isolation", "--editable", str(ROOT)]
        venv = [sys.executable, "-m", "venv", "--clear", "--without-pip", str(VENV)]
        carried = map(str, sorted(wheels.glob("*.whl")))
        for name, argv in (("venv", venv), ("wheels", [*pip, *carried]), ("tuner", tuner)):
            if not self.do(f"install {name}", argv, INSTALL_S, "install.log"):
                return False
            if name == "wheels":
                # This Python may be in an environment, which --system-site-packages would miss.
                (packages,) = VENV.glob("lib/python3.*/site-packages")
                folders = site.getsitepackages()
                lines = [f"import site; site.addsitedir({folder!r})\n" for folder in folders]
                (packages / "machine.pth").write_text("".join(lines))
        return True

    def check(self) -> None:
        """Start all checks at once, and say what each printed last."""
        limit = time.monotonic() + min(CHECKS_S, self.left_s)
        folder = self.folder / "checks"
        folder.mkdir(exist_ok=True)
        commands = checks.commands(self.python, folder, has_device=self.has_device)
        logs = {name: folder / f"{name}.log" for name in commands}
        started: dict[str, SupervisedCommand] = {}
        with ExitStack() as stack:
            for name, argv in commands.items():
                started[name] = processes.start(argv, logs[name], self.env, ROOT)
                stack.callback(started[name].stop)
            for name, command in started.items():
                fault = processes.wait(command, limit - time.monotonic())
                lines = list(filter(str.strip, logs[name].read_text().splitlines())) or [""]
                self.say(f"check {name}: {f'FAILED, {fault}: ' if fault else ''}{lines[-1][:150]}")

    def tune_part(self, part: Part, limit_s: float) -> None:
        """Tune a part in its own folder, and write what came of it."""
        folder = self.folder / part.name
        folder.mkdir(exist_ok=True)
        (folder / "study.toml").write_text(part.study_text(has_device=self.has_device))
        words = part.words(has_device=self.has_device, search_s=SEARCH_SHARE * limit_s)
        words = ["--study", str(folder / "study.toml"), "--name", part.name, *words]
        log, storage = f"{part.name}/output.log", ["--storage", str(folder / "tune.db")]
        try:
            runs = ["--run-dir", str(folder / "launches")]
            self.do(part.name, [self.tune, *words, *storage, *runs], limit_s, log)
        finally:
            export = [self.tune, "export", part.name, "--format", "json", *storage, "--output"]
            explain = [self.tune, "explain", part.name, "--json", *storage]
            report = [self.tune, "report", part.name, *storage, "--output"]
            self.do("  export", [*export, str(folder / "result.json")], LAST_S, log)
            self.do("  explain", explain, LAST_S, f"{part.name}/explained.json")
            self.do("  report", [*report, str(folder / "report.html")], LAST_S, log)


def main(argv: Sequence[str] | None = None) -> int:
    """Do all of it; 1 if nothing could be installed."""
    options = _options(argv)
    for part in options.parts:  # of an earlier run: its studies would only be continued
        shutil.rmtree(options.output / part, ignore_errors=True)
    options.output.mkdir(parents=True, exist_ok=True)
    processes.exit_by_signals()
    run, chosen = Run(options), [part for part in PARTS if part.name in options.parts]
    try:
        if options.python is None and not run.install(options.wheels):
            return 1
        run.check()
        for number, part in enumerate(chosen):
            share = part.share / sum(other.share for other in chosen[number:])
            limit_s = share * run.left_s - WRITE_S
            if limit_s < LEAST_S:
                run.say(f"{part.name}: skipped, {limit_s:.0f} s are too few")
            else:
                run.tune_part(part, limit_s)
    finally:
        table = [run.python, "-m", "benchmarks.gpu.table", str(run.folder)]
        run.do("table", [*table, *(part.name for part in chosen)], LAST_S, "run.log")
    print((run.folder / "table.md").read_text())
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python3 -m benchmarks.gpu", None, (__doc__ or "").split("\n")[0]
    )
    names, build = [part.name for part in PARTS], ROOT / "build" / "gpu"
    add = parser.add_argument
    add("parts", nargs="*", default=names, metavar="PART", help=f"of {', '.join(names)} [all]")
    add("--seconds", type=float, default=540.0, help="the run ends after so long [540]")
    add("--output", type=Path, default=build / "results", help="folder [build/gpu/results]")
    add("--wheels", type=Path, default=build / "wheels", help="what fetch.sh made")
    add("--python", type=Path, help="an interpreter that has everything: install nothing")
    add("--no-device", dest="device", action="store_false", help="on CPUs, tiny: to try the script")
    options = parser.parse_args(argv)
    if unknown := set(options.parts) - set(names):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
