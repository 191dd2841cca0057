"""Profiles a rank's main thread with cProfile; loaded by ``sitecustomize.py`` where that is asked.

``TUNE_PROFILE_DIR/rank-N.PID.prof`` is written when a Python of the rank ends. It must run in
the oldest Python a user may have: no annotations, nothing newer than 3.6.
"""

import atexit
import cProfile
import os


def start(folder, rank):
    """Profile from here to the exit of this process; a fork's child does not write."""
    pid = os.getpid()
    profile = cProfile.Profile()
    path = os.path.join(folder, f"rank-{rank}.{pid}.prof")  # noqa: PTH118

    def end():
        if os.getpid() != pid:
            return
        profile.disable()
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
            profile.dump_stats(f"{path}.partial")
            os.replace(f"{path}.partial", path)  # noqa: PTH105
        except Exception:  # the profile is lost; the program's own exit must not show it
            pass

    atexit.register(end)
    profile.enable()
