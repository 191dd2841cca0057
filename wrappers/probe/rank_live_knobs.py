"""The knobs that a rank can change while it runs: the threads, and what the program offers."""

import os
import sys
import traceback

import rank_live_threads as threads

_OPENCV = "opencv_threads"


class Knobs:
    """Name -> how it is applied, read and settled; threads first: new workers inherit them."""

    def __init__(self):
        self._offered = {}
        self._all = {}
        self._first = {}

    def offer(self, name, apply, read, settle=None):
        """Take one from the program, in place of our own of that name: see :class:`Agent`."""
        self._offered[name] = apply, read, settle

    def begin(self):
        """Note how the job started.

        Returns:
            Each knob that can be changed from now on, with its value; None where it is not known.
        """
        pools = threads.Pools()
        if pools.begin():
            self._all["omp_threads"] = pools.apply, pools.read, None
        if "cv2" in sys.modules:
            self._take_opencv(threads.OpenCV())
        self._all.update(self._offered)
        self._first = {name: self._read(name, []) for name in self._all}
        return dict(self._first)

    def _take_opencv(self, opencv):
        """Those of this process: alone, or before the program's own, which are its workers'."""
        if _OPENCV in self._offered:
            apply, read, settle = self._offered[_OPENCV]

            def both(value):
                opencv.apply(value)
                apply(value)

            self._offered[_OPENCV] = both, read, settle
        elif not threads.has_children():
            self._all[_OPENCV] = opencv.apply, opencv.read, None

    def change(self, values):
        """Apply values in the order of the knobs, then settle them; what fails is told.

        Args:
            values: Name -> value; None is how the job started.

        Returns:
            What went wrong, a line for each.
        """
        errors = [f"{name}: cannot be changed here" for name in values if name not in self._all]
        settles = []
        for name in [name for name in self._all if name in values]:
            try:
                self._apply(name, values[name])
            except Exception as error:  # of a library, or of the program's own function
                traceback.print_exc()  # where that was is for who reads the job's output
                errors.append(_line(name, error))
            settle = self._all[name][2]
            if settle is not None and settle not in settles:
                settles.append(settle)
        return errors + [line for settle in settles for line in self._settled(settle, values)]

    def _settled(self, settle, values):
        """What goes wrong concerns each knob that shares it."""
        try:
            settle()
        except Exception as error:
            traceback.print_exc()
            return [_line(name, error) for name in values if self._shares(name, settle)]
        return []

    def _shares(self, name, settle):
        return name in self._all and self._all[name][2] == settle

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
