"""Whether a program died although its launch ended with exit code 0 (pure).

A pipe (``train | tee log``), ``|| true`` or a last ``echo`` in a script hide the exit code. What
is left is the end of the output. Only what cannot be the end of a program that went on counts: a
traceback that was caught, logged and followed by other lines is none.
"""

from __future__ import annotations

import re

from tuner.launch.failure import EXCEPTION, HANDLED, HYDRA, NOTICE, TAG, TORCHRUN

_FAULT = (
    "(?:Segmentation fault|Bus error|Illegal instruction|Floating point exception|Aborted"
    r"|Trace/breakpoint trap)(?: \(core dumped\))?"
)
#: A line that is printed for a program that has died, by the program or by what started it.
_DEATH = re.compile(
    "|".join(
        (
            # a shell; of signals that scripts send to their helpers (SIGKILL) it prints the like
            rf"[\w./-]+: line \d+: +\d+ {_FAULT}\b|(?:[\w./-]+: )?{_FAULT}$",
            # Open MPI
            r"(?:mpirun|mpiexec|orterun|prterun|prun) noticed that process rank \d",
            r"(?:mpirun|mpiexec|orterun|prterun|prun) (?:detected that one or more processes exited"
            r"|has exited due to process rank \d)|\[\S+\] Local abort before MPI_INIT",
            r"MPI_ABORT was invoked on rank \d|Primary job +terminated normally, but",
            r"\[\S+\] \*\*\* (?:Process received signal|An error occurred in MPI_)",
            # MPICH, Intel MPI and MVAPICH
            r"= +BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES|Abort\(\d+\) on node \d",
            r"application called MPI_Abort\(|Fatal error in (?:internal_|P?MPI_)\w+",
            r"\[\S+\]\[error_sighandler\] Caught error: ",
            # Slurm
            r"srun: error: \S+: tasks? [\d,-]+: |srun: Job step aborted",
            r"slurmstepd: error: \*\*\* STEP ",
            # Fortran
            r"(?:ERROR )?STOP 0*[1-9]\d*$|ERROR STOP\b|Error termination\.|Fortran runtime error: ",
            r"forrtl: severe \(\d+\)|Program received signal SIG[A-Z]+: ",
            # C and C++
            r"terminate called (?:after throwing|without an active)|libc\+\+abi: terminating ",
            r"\*\*\* (?:stack smashing|buffer overflow) detected \*\*\*",
            r"[\w./-]+: .*: Assertion [`'].*' failed\.$",
            r"double free or corruption|corrupted (?:size vs|double-linked)"
            r"|(?:free|malloc|realloc|munmap_chunk)\(\): (?:invalid|double|corr)",
            r"[\w./-]+: error while loading shared libraries: ",
            # Python's argparse
            r"[\w./-]+: error: (?:argument |the following arguments |unrecognized arguments)",
            # Rust, R, Julia, Python itself, torchrun
            r"thread 'main' .*panicked at |Execution halted$|ERROR: LoadError: ",
            r"Fatal Python error: |torch\.distributed\.elastic\.\S+\.ChildFailedError",
        )
    )
)
#: What may stand below such a line: stacks, advice, what a shell and Python's helpers add.
_BELOW_DEATH = re.compile(
    r"#\d+ |\[\S+\] |[-=*]{10,}|Backtrace for this error:|Note: The following floating-point"
    r"|(?:Current thread|Thread) 0x|Extension modules: |Stacktrace:|in expression starting at "
    r"|note: (?:run with|Some details)|stack backtrace:|\w+\(\d+\)\.*: "
    r"|Image +PC +Routine|\S+ +[0-9A-F]{16} |\[[WE]\d+ [\d:.]+ \S+\] "
    r"|Calls: |srun: |slurmstepd: |(?:real|user|sys)\s+\d+m|make(?:\[\d+\])?: \*{3} "
)
#: Rust says what was wrong in a line of its own.
_PANIC = re.compile(r"^(thread 'main' .*panicked at \S+:)\n", re.MULTILINE)
_WARNING = re.compile(r"\S+:\d+: \w*Warning: ")

_HEADER = re.compile(r"(?:\[rank\d+\]: ?)?Traceback \(most recent call last\):$")
_RANK_TAG = re.compile(r"\[rank\d+\]: ?")
#: Any exception's last line, which stands below an indented one.
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?::\s.*)?")
#: What Python says above a traceback that did not end the program …
_IGNORED = ("Exception ignored ", "Error in atexit.", "Error in sys.")
#: … and above that of a thread or a child process, which ended only these.
_PART = re.compile(r"Exception in thread |Process \S+:$")


def death(text: str, *, has_figure: bool) -> str:
    """Return the line that shows that the program died; empty if the output does not end in one.

    Args:
        text: The end of the output, without terminal escapes.
        has_figure: The program's own log or figure is complete. Then a thread or a child process
            that ended in a traceback is not taken for the program's death: its own exit was 0.
    """
    text = TORCHRUN.sub("torch.distributed.elastic.multiprocessing.errors.ChildFailedError\n", text)
    text = _PANIC.sub(r"\1 ", text)
    text = NOTICE.sub(lambda notice: " ".join(notice[1].split()) + "\n", TAG.sub("", text))
    ending = above = ""
    may_indent = False  # whether an indented line belongs to what ends the output
    counts: list[bool] = []  # for each traceback that is open: whether it ends the program
    for tagged in text.split("\n"):
        line = _RANK_TAG.sub("", tagged, count=1)
        if not line.strip():
            continue
        if _HEADER.match(line):
            is_part = _PART.match(above) is not None
            counts.append(not above.startswith(_IGNORED) and not (is_part and has_figure))
        elif line[0].isspace() and (counts or may_indent):
            pass
        elif counts and (
            EXCEPTION.fullmatch(line) or (above[0].isspace() and _RAISED.fullmatch(line))
        ):
            ending = line if counts.pop(0) else ending
            may_indent = False
        elif _DEATH.match(line):
            ending, may_indent = ending or line, True
        elif (ending and (_BELOW_DEATH.match(line) or line.startswith(HYDRA))) or _WARNING.match(
            line
        ):
            may_indent = True
        elif not (line.startswith((*HANDLED, *_IGNORED)) or _PART.match(line)):
            ending, may_indent = "", False
        above = line
    return ending.strip()
