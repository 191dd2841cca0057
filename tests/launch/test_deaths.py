"""Whether a program died although its launch ended with exit code 0."""

from __future__ import annotations

import pytest

from tuner.launch.deaths import death

TRACEBACK = """Traceback (most recent call last):
  File "/x/model.py", line 6, in <module>
    raise ValueError("halo of 4")
    ~~~~^^^
ValueError: halo of 4
"""
RULE = "-" * 74 + "\n"

DEATHS = {
    "a traceback behind a pipe": (f"model starts\n{TRACEBACK}", "ValueError: halo of 4"),
    "an exception of the program's own": (
        TRACEBACK.replace("ValueError: halo of 4", "__main__.Diverged"),
        "__main__.Diverged",
    ),
    "one raised while another was handled": (
        f"{TRACEBACK}\nDuring handling of the above exception, another exception occurred:\n\n"
        + TRACEBACK.replace("ValueError: halo", "KeyError: halo"),
        "KeyError: halo of 4",
    ),
    "two ranks whose lines are mixed": (
        "".join(line * 2 for line in TRACEBACK.splitlines(keepends=True)),
        "ValueError: halo of 4",
    ),
    "a rank of torch's": (
        "".join(f"[rank1]: {line}" for line in TRACEBACK.splitlines(keepends=True)),
        "ValueError: halo of 4",
    ),
    "a value that the program refuses": (
        "usage: model.py [--chunk N]\nmodel.py: error: argument --chunk: invalid choice: 4\n",
        "model.py: error: argument --chunk: invalid choice: 4",
    ),
    "a warning of torch's below it": (
        f"{TRACEBACK}[rank1]:[W1126 12:00:00.1 ProcessGroupNCCL.cpp:1250] Warning: process\n",
        "ValueError: halo of 4",
    ),
    "a warning of Python's helpers below it": (
        f"{TRACEBACK}/usr/lib/python3.11/multiprocessing/resource_tracker.py:254: UserWarning: 1\n"
        "  warnings.warn('resource_tracker: There appear to be 1 leaked semaphore')\n",
        "ValueError: halo of 4",
    ),
    "bash": (
        "start\nrun.sh: line 3: 71 Segmentation fault      (core dumped) ./solver\n",
        "run.sh: line 3: 71 Segmentation fault      (core dumped) ./solver",
    ),
    "dash": ("start\nAborted\n", "Aborted"),
    "time, of bash": ("Bus error\n\nreal\t0m0.1s\nuser\t0m0.0s\nsys\t0m0.0s\n", "Bus error"),
    "Open MPI": (
        f"{RULE}prterun noticed that process rank 1 with PID 0 on node vm exited on signal 11\n"
        f"(Segmentation fault).\n{RULE}",
        "prterun noticed that process rank 1 with PID 0 on node vm exited on signal 11"
        " (Segmentation fault).",
    ),
    "Open MPI's stack": (
        "[vm:71] *** Process received signal ***\n[vm:71] Signal: Segmentation fault (11)\n"
        "[vm:71] [ 0] /lib/libc.so.6(+0x1)[0x7f]\n[vm:71] *** End of error message ***\n",
        "[vm:71] *** Process received signal ***",
    ),
    "MPICH": (
        "=" * 60 + "\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 71\n"
        "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Hangup (signal 1)\n",
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
    ),
    "an error that Open MPI ends the job for": (
        "[vm:71] *** An error occurred in MPI_Send\n[vm:71] *** MPI_ERR_RANK: invalid rank\n"
        f'{RULE}prterun has exited due to process rank 0 with PID 0 on node vm calling\n"abort".\n'
        f"{RULE}",
        "[vm:71] *** An error occurred in MPI_Send",
    ),
    "MPICH's stack": (
        "Abort(7) on node 0 (rank 0 in comm 0): Fatal error in PMPI_Recv: error stack:\n"
        "PMPI_Recv(177)........: MPI_Recv(src=5, MPI_COMM_WORLD) failed\n"
        "PMPI_Recv(105): Invalid rank has value 5 but must be nonnegative and less than 2\n",
        "Abort(7) on node 0 (rank 0 in comm 0): Fatal error in PMPI_Recv: error stack:",
    ),
    "MPI_Abort": (
        "Abort(1) on node 0 (rank 0 in comm 0): application called MPI_Abort\n",
        "Abort(1) on node 0 (rank 0 in comm 0): application called MPI_Abort",
    ),
    "srun": (
        "srun: error: h1: task 0: Exited with exit code 1\n",
        "srun: error: h1: task 0: Exited with exit code 1",
    ),
    "Fortran's STOP": ("reading input\nSTOP 1\n", "STOP 1"),
    "Fortran's runtime": (
        "At line 3 of file x.f90\nFortran runtime error: End of file\n\n"
        "Error termination. Backtrace:\n#0  0x7f in ???\n",
        "Fortran runtime error: End of file",
    ),
    "Fortran's runtime of Intel": (
        "forrtl: severe (174): SIGSEGV, segmentation fault occurred\n"
        "Image              PC                Routine            Line        Source\n"
        "a.out              000000000040A3B4  Unknown               Unknown  Unknown\n",
        "forrtl: severe (174): SIGSEGV, segmentation fault occurred",
    ),
    "Rust, whose message has a line of its own": (
        "thread 'main' panicked at src/main.rs:2:5:\nhalo of 4\nstack backtrace:\n   0: main\n"
        "note: run with `RUST_BACKTRACE=full`\n",
        "thread 'main' panicked at src/main.rs:2:5: halo of 4",
    ),
    "the loader": (
        "./solve: error while loading shared libraries: libx.so.1: cannot open it\n",
        "./solve: error while loading shared libraries: libx.so.1: cannot open it",
    ),
    "C++": (
        "terminate called after throwing an instance of 'std::runtime_error'\n  what():  halo\n",
        "terminate called after throwing an instance of 'std::runtime_error'",
    ),
    "an assertion of C": (
        "solve: solve.c:12: main: Assertion `n > 0' failed.\nAborted (core dumped)\n",
        "solve: solve.c:12: main: Assertion `n > 0' failed.",
    ),
    "Python's own crash": (
        "Fatal Python error: Segmentation fault\n\nCurrent thread 0x7f (most recent call first):\n"
        '  File "x.py", line 1 in <module>\n\nExtension modules: numpy (total: 1)\n',
        "Fatal Python error: Segmentation fault",
    ),
}


@pytest.mark.parametrize("case", DEATHS)
def test_an_output_that_ends_in_a_death(case: str) -> None:
    text, line = DEATHS[case]
    assert death(text, has_figure=True) == line
    went_on = f"{text}step 2\nstep 3\n"
    assert death(went_on, has_figure=False) == "", "the program went on"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "STOP 0\n",
        "STOP\n",
        "STOP converged\n",
        "Error: 0.001\nMax error 3e-4\n",
        "Aborted 3 of 7 attempts\n",
        "run.sh: line 9: 71 Terminated              ./monitor\n",
        "run.sh: line 9: 71 Killed                  ./monitor\n",
        "nvidia-smi: command not found\n",
        f"done\nException ignored in: <function Pool.__del__ at 0x7f>\n{TRACEBACK}",
        f"done\nError in atexit._run_exitfuncs:\n{TRACEBACK}",
        f"{TRACEBACK}done\n",
        f"{TRACEBACK}  epoch 1\n",
        "the figures\n" + RULE + "a table\n" + RULE,
    ],
)
def test_what_is_no_death(text: str) -> None:
    assert death(text, has_figure=False) == ""


@pytest.mark.parametrize("above", ["Exception in thread Thread-1 (load):", "Process Process-2:"])
def test_a_part_that_died_is_a_death_if_no_figure_shows_that_the_work_was_done(above: str) -> None:
    text = f"done\n{above}\n{TRACEBACK}"
    assert death(text, has_figure=False) == "ValueError: halo of 4"
    assert death(text, has_figure=True) == ""
