"""The knobs that a rank can change while it runs: the threads, and what the program offers."""

import os
import sys

import rank_live_threads as threads


class Knobs:
    """Name -> how it is applied and read; the threads first, since new workers inherit them."""

    def __init__(self):
        self._offered = {}
        self._all = {}
        self._first = {}

    def offer(self, name, apply, read):
        """Take one from the program, in place of our own of that name."""
        self._offered[name] = apply, read

    def begin(self):
        """Note how the job started.

        Returns:
            Each knob that can be changed from now on, with its value; None where it is not known.
        """
        pools = threads.Pools()
        if pools.begin():
            self._all["omp_threads"] = pools.apply, pools.read
        if "cv2" in sys.modules and not threads.has_children():
            opencv = threads.OpenCV()
            self._all["opencv_threads"] = opencv.apply, opencv.read
        self._all.update(self._offered)
        self._first = {name: self._read(name, []) for name in self._all}
        return dict(self._first)

    def change(self, values):
        """Apply values in the order of the knobs; what fails is told, and the others go on.

        Args:
            values: Name -> value; None is how the job started.

        Returns:
            What went wrong, a line for each.
        """
        errors = [f"{name}: cannot be changed here" for name in values if name not in self._all]
        for name in self._all:
            if name in values:
                try:
                    self._apply(name, values[name])
                except Exception as error:  # of a library, or of the program's own function
                    errors.append(_line(name, error))
        return errors

    def _apply(self, name, value):
        # Our own know how they started: not each pool with the same number.
        if value is None and name in self._offered:
            value = self._first[name]
        self._all[name][0](value)

    def _read(self, name, errors):
        read = self._all[name][1]
        try:
            return None if read is None else read()
        except Exception as error:
            errors.append(_line(name, error))
            return None

    def state(self, rank, errors):
        """What this rank runs with now, and what went wrong."""
        errors = list(errors)
        values = {name: self._read(name, errors) for name in self._all}
        state = {"rank": rank, "pid": os.getpid(), "values": values, "errors": errors}
        state.update(threads.state())
        return state


def _line(name, error):
    return " ".join(f"{name}: {type(error).__name__}: {error}".split())[:300]
