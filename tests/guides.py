"""The guides of `docs/how-to`, and a program for their commands."""

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


def shell_blocks(name: str, language: str = "sh") -> list[str]:
    """The shell commands of a guide, or its pieces of another language."""
    guide = Path(__file__).parents[1] / "docs" / "how-to" / name
    fenced = rf"^```{language}\n(.*?)^```"
    return re.findall(fenced, guide.read_text(), re.DOTALL | re.MULTILINE)
