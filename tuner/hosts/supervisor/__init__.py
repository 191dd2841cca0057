"""Runs one command and ends everything that came of it.

A program of the standard library alone, started by :mod:`tuner.hosts.process` as
``python -I -S FOLDER STATUS_FD CONTROL_FD``, so that it outlives a ``kill -9`` of tune.

The control pipe carries one JSON line (argv, env, cwd, marker, parent, foreground, and where a
control group and a folder for temporary files may be made; text is bytes read as latin-1), then
single bytes: each is a signal number to hand on to the command. Its end of file means: end it
all. A signal that comes while it ends means: without waiting. The status pipe gets one JSON line
when the command has started or could not be, and one when nothing is left of it.

What may be killed: descendants of this process (a child subreaper, so nothing leaves the
tree), the members of the trial's control group, and processes that carry the trial's marker in
``/proc/PID/environ``.
"""
