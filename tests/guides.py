"""The commands of the README and the documentation, and a program for them."""

from __future__ import annotations

import re
from pathlib import Path

#: What the guides call ``train.py``: an MPI program with a log, snapshots, and ``--resume``. It
#: takes as many steps of 0.1 s as the file ``length`` beside it says.
TRAIN = """
import argparse, json, os, time
from pathlib import Path
from mpi4py import MPI
parser = argparse.ArgumentParser()
parser.add_argument("--out", type=Path)
parser.add_argument("--resume", type=Path)
options, world = parser.parse_args(), MPI.COMM_WORLD
done = int(options.resume.read_text()) if options.resume else 0
print("begins at", done, flush=True)
length = int(Path(__file__).with_name("length").read_text())
while done < length:
    time.sleep(0.1)
    done = world.allreduce(done + 1, MPI.MAX)
    if world.rank == 0:
        draft = options.out / "draft"
        draft.write_text(str(done))
        draft.rename(options.out / f"snapshot_{done}")
if world.rank == 0:
    entry = {"iteration": done, "elapsed_time": 0.1 * done}
    (options.out / "log").write_text(json.dumps([entry]))
"""


ROOT = Path(__file__).parents[1]


def blocks(page: str, language: str = "sh") -> list[str]:
    """The shell commands of a page, or its pieces of another language, block by block."""
    text = (ROOT / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def tune_commands() -> dict[str, list[str]]:
    """The lines that begin with ``tune``, without their comments, of each page that has any."""
    found = {}
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        page = str(path.relative_to(ROOT))
        lines = "".join(blocks(page)).splitlines()
        commands = [line for line in lines if line.startswith("tune ")]
        found[page] = [re.split(r" {2,}#| # ", command)[0].strip() for command in commands]
    return {page: commands for page, commands in found.items() if commands}
