"""The text that ``tune init`` writes: a study file that loads as it is."""

from __future__ import annotations

_TEXT = """\
# A study for `tune`: what to run, what to try, how its time is read.
# Lines that begin with # are examples or say the default.
# `tune --study FILE` uses a file like this one; one called tune.toml is taken up by itself.
# The command line wins over this file. Relative paths count from the current folder.

{name}

# What is measured: keep it short (5 to 60 s), but like the whole job in all that matters.
# mpirun is added by tune. The placeholders:
#   {out}       the folder that the program's log must go to (needed)
#   {a_knob}    the knob's value; before the first value is tried, the option is left out
#   {python}    the interpreter that runs tune; {workloads}: the trainers that come with it
# A literal brace is doubled: {{ and }}. A string is split into words as in a shell.
command = "python train.py --epoch 1 --out {out} --loaderjob {iterator_workers}"

# The whole job, as `tune export --format sh` will run it (default: the same as command).
# job = "python train.py --epoch 100 --out {out} --loaderjob {iterator_workers}"

mpi_procs = 8        # ranks                                      --mpi-procs
trials = 50          # the most settings to try                   --trials
# trial_limit_s = 300  # or "5m": a launch that takes longer fails  --trial-limit
# warm_ups = 1       # launches thrown away at the start          --warm-ups
# seed = 0           # of the search                              --seed
# mpirun = "/opt/openmpi/bin/mpirun"                            # --mpirun
# mpirun_args = ["--mca", "pml", "ob1"]                         # --mpirun-arg

# The program's log below {out}: Chainer's LogReport, or that of pytorch-pfn-extras
# (JSON list, .jsonl or .yaml). Smaller is better.
[objective]
kind = "logreport"   #                                            --objective
key = "elapsed_time"
filename = "log"     #                                            --log

# Only the knobs that stand here, or whose placeholder stands in the command, are tuned.
# Without range or values a knob gets what this machine can use.        --knob NAME=RANGE
[knobs.omp_threads]  # sets OMP_NUM_THREADS and its like in every rank
# range = "1..8"     # or values = [1, 2, 4], or fix = 2 to hold it     --fix NAME=VALUE

[knobs.iterator_workers]  # reaches the program by {iterator_workers}
# default = 4        # the baseline's value, where it cannot be left out  --default NAME=VALUE

# [knobs.opencv_threads]  # sets OPENCV_FOR_THREADS_NUM
# [knobs.communicator]    # needs {communicator} in the command

# Knobs of your own: by environment variable, or by an option added to the command.
# [knobs.malloc_arenas]
# values = ["unset", 1, 2, 4]
# env = "MALLOC_ARENA_MAX"
# help = "heaps per process"
#
# [knobs.prefetch]
# range = "1..4"
# flag = "--prefetch"
#
# [knobs.binding]
# values = ["none", "core", "socket"]
# launcher_option = "bind_to"

# Why a knob is not tuned here: `tune show` repeats it.
[left_out]
opencv_threads = "the trainer does not use OpenCV"
communicator = "the trainer's own choice is kept"
"""


def template(name: str) -> str:
    """A study file with comments.

    Args:
        name: The study's name; ``tune`` (of ``tune.toml``) is no name for a study, and
            leaves it to be made from the command.
    """
    import json

    line = '# name = "my_job"  (default: made of the program\'s)'
    if name != "tune":
        line = f"name = {json.dumps(name)}"
    return _TEXT.replace("{name}", line, 1)
