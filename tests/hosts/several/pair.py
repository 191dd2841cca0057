"""Two launches side by side, with a rank on each of two hosts.

Run on the first host as ``python -m tests.hosts.several.pair FOLDER SECONDS HOST HOST``. Each rank
notes the moments at which it runs, until it has run for so long. Prints how each launch ended and
its pauses.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

from tuner.hosts import lock, machine, process
from tuner.hosts.remote.connections import connections_folder
from tuner.hosts.remote.observer import HostsObserver
from tuner.hosts.remote.start import probe_code
from tuner.hosts.remote.trial import TrialOnHosts
from tuner.hosts.supervisor.cleanup import marker_of_launch
from tuner.hosts.untrusted_files import make_folder
from tuner.launch import launchers, render, side_by_side
from tuner.launch.hosts import reach
from tuner.launch.request import MeasurementRequest
from tuner.model import BASELINE, Launch, Layout, ObjectiveSpec, StudySpec

#: A rank notes when it runs, at least ten milliseconds of CPU time apart, and has a child that does
#: so too, and is a new one each time. It never waits for the other rank.
PROGRAM = """
import os, sys, time
from mpi4py import MPI
rank, side, folder, seconds = MPI.COMM_WORLD.rank, sys.argv[1], sys.argv[2], float(sys.argv[3])

def note(who):
    with open(f"{folder}/beats-{side}-{rank}-{who}", "a") as file:
        file.write(f"{time.time()}\\n")

note("itself")
while time.process_time() < seconds:
    end_s = time.process_time() + 0.01
    while time.process_time() < end_s:
        pass
    note("itself")
    if os.fork() == 0:
        note("child")
        os._exit(0)
    os.wait()
print("done", rank)
"""


def main(folder: Path, seconds: str, *names: str) -> None:
    """Run the two."""
    (folder / "program.py").write_text(PROGRAM)
    layout = Layout(2, names, (1, 1))
    launcher, marker = launchers.find(None, environ=os.environ), os.urandom(16).hex()
    running: list[TrialOnHosts] = []
    with closing(reach(launcher, layout.hosts, os.environ)) as hosts:
        hosts.place(probe_code())

        def request(side: int) -> MeasurementRequest:
            spec = StudySpec(
                name="pair",
                command=(
                    sys.executable, str(folder / "program.py"), str(side), str(folder), seconds
                ),
                launcher=launcher,
                layout=layout,
                machine=machine.this_machine(),
                knobs=(),
                objective=ObjectiveSpec(kind="wall"),
            )  # fmt: skip
            launch = render.launch(
                spec,
                BASELINE,
                folder / str(side),
                environ=os.environ,
                cwd=folder,
                marker=marker_of_launch(marker, side),
            )
            return MeasurementRequest(launch, spec, BASELINE)

        def start(launch: Launch) -> TrialOnHosts:
            connections = connections_folder(launch.folder)
            make_folder(connections)
            running.append(TrialOnHosts(process.start(launch), hosts, connections))
            return running[-1]

        held = lock.measuring("pair", environ=os.environ)
        with hosts.held(held, "pair", database="", marker=marker):
            outcomes = side_by_side.run(
                [request(side) for side in (0, 1)],
                start=start,
                observe=partial(HostsObserver, hosts),
            )
    for outcome, trial in zip(outcomes, running, strict=True):
        ranks = [rank.rank for rank in outcome.observation.ranks]
        print(json.dumps({"ending": str(outcome.ending), "ranks": ranks, "pauses": trial.pauses()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
