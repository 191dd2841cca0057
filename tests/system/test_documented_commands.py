"""Each ``tune`` command of the README and the documentation does what it should.

A study's command is asked for its first launches (``--dry-run``), every other one runs on a real
study. Commands with hosts are in ``tests/hosts/several``, those with a server in ``test_postgres``
and ``test_publish``, ``tune scale`` is in ``test_cli``, and ``test_guides`` runs whole
guides.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.guides import TRAIN, tune_commands
from tuner.cli.app import COMMANDS
from tuner.cli.main import main
from tuner.results.dashboard import web_server

pytestmark = [pytest.mark.system, pytest.mark.slow]

#: What the pages call a program of the reader's.
PROGRAMS = ("benchmark.sh", "gmx_mpi", "solver", "torchrun")


#: What other tests run.
ELSEWHERE = "tune scale|--host|postgresql:|mlflow|wandb"

#: Those of pages that no other test runs as a whole.
COMMANDS_BY_PAGE = {
    page: [line for line in lines if not re.search(ELSEWHERE, line)]
    for page, lines in tune_commands().items()
    if Path(page).name not in {"compare.md", "slurm.md", "spot.md"}
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the reader's programs, and with a finished study and its export."""
    folder = tmp_path_factory.mktemp("documented")
    (folder / "length").write_text("3")
    for name in ("train.py", "mnist.py"):
        (folder / name).write_text(TRAIN)
    for name in PROGRAMS:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    (folder / "my_module.py").write_text(
        "from optuna.pruners import NopPruner as MyPruner\n"
        "from optuna.samplers import RandomSampler as MySampler\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        enter(folder, patch)
        job = ("-n", "1", "--knob", "omp_threads=1,2", "--", "python", "train.py", "--out", "{out}")
        assert main(["--name", "NAME", *job]) == 0
        assert main(["export", "-o", "BEFORE.json"]) == 0
    return folder


def enter(folder: Path, patch: pytest.MonkeyPatch) -> None:
    patch.chdir(folder)
    patch.delenv("TUNE_STORAGE", raising=False)
    patch.setenv(
        "PATH", os.pathsep.join((str(folder), str(Path(sys.executable).parent), os.environ["PATH"]))
    )


def typed(command: str) -> list[str]:
    """The words of a command, with what a reader fills in."""
    if command.startswith("tune … "):
        own = " --chunk {chunk}" if "chunk" in command else ""
        command = command.replace("…", "-n 2") + f" -- python train.py --out {{out}}{own}"
    for name, value in {"…": "", "BEFORE": "BEFORE.json", "AFTER": "NAME", "STUDY": "NAME"}.items():
        command = command.replace(name, value)
    words = shlex.split(command)[1:]
    if words[0] not in COMMANDS:
        return ["--dry-run", *words]
    return [*words, "--port", "0"] if words[0] == "dashboard" else words


@pytest.mark.parametrize("page", COMMANDS_BY_PAGE)
def test_the_commands_of_a_page_work(
    page: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    enter(folder, monkeypatch)
    (folder / "tune.toml").unlink(missing_ok=True)  # `tune init` writes it
    monkeypatch.setattr(web_server.DashboardServer, "serve", lambda self: None)
    for command in COMMANDS_BY_PAGE[page]:
        words = typed(command)
        code = main(words)
        out, err = capfd.readouterr()
        # The verdict of `tune doctor` is that of the machine.
        assert code in ((0, 3) if words[0] == "doctor" else (0,)), (command, out, err)
