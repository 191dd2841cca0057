"""What the warm-up shows of a program that measures too little, or nothing."""

from __future__ import annotations

from tuner.launch.trial import output_of
from tuner.model import Finished, Launch, ObjectiveSpec, Outcome, wording

#: A run that is shorter differs by chance and by its start more than by most knobs, s.
SHORT_S = 1.0


def notes(outcome: Outcome, launch: Launch, objective: ObjectiveSpec) -> list[str]:
    """What the user should know before more launches like this one are made."""
    ending = outcome.ending
    found: list[str] = []
    if not isinstance(ending, Finished):
        return found
    run_s = ending.elapsed_s if objective.clock in {"elapsed", "wall"} else outcome.wall_s
    if run_s < SHORT_S:
        found.append(
            f"a run takes only {wording.seconds(run_s)}: small gains will not be told from chance;"
            " give it more work (more iterations or data), so that it takes 5 to 60 s"
        )
    if objective.kind == "wall":  # a program that does nothing is quick, too
        line = output_of(launch).rstrip().rpartition("\n")[2]
        said = f"its last line is: {wording.one_line(line)}" if line else "it printed nothing"
        found.append(f"wall time counts whatever the program does; {said}")
    return found
