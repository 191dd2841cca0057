"""The text that ``tune init`` writes: a study file that loads as it is."""

from __future__ import annotations

from tuner.config.spec.naming import as_name

_TEXT = """\
# A study for `tune`: what to run, what to try, how its time is read.
# Lines that begin with # and no space are examples: take the # away to use them.
# `tune --study FILE` uses a file like this; one called tune.toml is taken up by itself.
# The command line wins over this file. Relative paths count from the current folder.

{name}

# What is measured: short (5 to 60 s), but like the whole job in all that matters.
# mpirun is added by tune. Placeholders:
#   {out}              the folder that the program's log must go to (needed for a log)
#   {iterator_workers} and other knobs: the value; in the baseline the option is left out
#   {python}           the interpreter of tune; {workloads}: the trainers that come with it
# A literal brace is doubled: {{ and }}. A string is split into words as in a shell.
command = "python train.py --epoch 1 --out {out} --loaderjob {iterator_workers}"

# The whole job, for `tune export --format sh`; without it the command above.
#job = "python train.py --epoch 100 --out {out} --loaderjob {iterator_workers}"

mpi_procs = 8          # ranks                                   --mpi-procs
trials = 50            # the most settings to try                --trials
#budget_s = "10m"      # ends the search after this time         --budget
#until = "1%"          # or once going on should gain less       --until
#precision = "2%"      # settings closer than this are equal     --precision
#oversubscription = 4  # the most cores asked for, in multiples  --oversubscribe
#confirm = false       # the gain is then not proven             --no-confirm
#trial_limit_s = "5m"  # a launch that takes longer has failed   --trial-limit
#stall_limit_s = "2m"  # or in which nothing happens; "none"     --stall-limit
#warm_ups = 1          # launches thrown away at the start       --warm-ups
#live = "off"          # "auto": in a running job where it can    --live
#seed = 0              # of the search                           --seed
#items = 60000         # in a run: shows items a second          --items
#price_per_hour = 4.1  # of all the hardware: what a run costs   --price-per-hour
#mpirun = "/opt/openmpi/bin/mpirun"                            # --mpirun
#launcher = "torchrun" # openmpi, mpich or torchrun               --launcher
#mpirun_args = ["--mca", "pml", "ob1"]                         # --mpirun-arg

# The program's log below {out}: of Chainer's LogReport or pytorch-pfn-extras' (a JSON
# list, .jsonl or .yaml). The last value of the key is the launch's time.
[objective]
kind = "logreport"     # --objective
key = "elapsed_time"   # any key of the log                 --objective logreport:KEY
#filename = "log"      # below {out}; a pattern's: read in place of what is printed  --log
#loss_key = "main/loss" # what tells that the training came to the same; else a usual one
#statistic = "steady"  # seconds an iteration after the warm-up --objective logreport:steady
# A program without a log needs no {out}: kind = "wall" is how long a launch takes, or
#   kind = "pattern"                      what it prints: the last match of
#   pattern = 'Performance: +([0-9.]+)'   this, whose group is the figure
# And of a pattern or another key:
#   unit = "ns/day"                       shown as it is; us, ms, s, min, h are times  --unit
#   maximize = true                       more of it is better                     --maximize

# Tuned are the knobs that stand here and those whose placeholder stands in the command;
# `tune knobs` lists those that there are. Without range, values or fix a knob takes
# all that this machine can use.
[knobs.omp_threads]    # sets OMP_NUM_THREADS and its like in every rank
#range = "1..8"        # or values = [1, 2, 4]            --knob omp_threads=1..8

[knobs.iterator_workers]
#fix = 2               # held at one value, not tuned     --fix iterator_workers=2
#default = 4           # in the baseline, else left out   --default iterator_workers=4

# Knobs of your own go by environment variable, by an option added to the command, by a
# placeholder in it, or to mpirun.
#[knobs.pool_size]
#values = ["unset", 1, 2, 4]
#env = "MY_POOL_SIZE"
#help = "buffers that the program keeps"
#when = {omp_threads = [1, 2]}   # it exists only with these values of another knob

#[knobs.amp]           # an option without a value: on or off
#switch = "--amp"
#changes_numerics = true   # settings with it are marked, the best without it is named too

#[knobs.chunk]
#range = "1..4"
#flag = "--chunk"

#[knobs.binding]
#values = ["none", "core", "socket"]
#launcher_option = "bind_to"

# Why a knob is not tuned here; `tune show` repeats it.
[left_out]
opencv_threads = "the trainer does not use OpenCV"
communicator = "the trainer's own choice is kept"
"""


def template(name: str) -> str:
    """A study file with comments.

    Args:
        name: The study's name, other characters than a name can have replaced; ``tune``
            (of ``tune.toml``) is none, and leaves it to be made of the program's.
    """
    safe = as_name(name)
    line = '#name = "my_job"      # without it: made of the program\'s name   --name'
    if safe not in ("", "tune"):
        line = f'name = "{safe}"'
    return _TEXT.replace("{name}", line, 1)
