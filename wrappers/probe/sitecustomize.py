"""Starts the probe in a rank of a trial; Python finds this file through PYTHONPATH.

Python imports a module of this name when it starts. Ours lets the program import ``tuner.live``,
and starts the probe in a rank (one of the variables below is set) of a trial, which sets

- ``TUNE_PROBE_DIR``: the rank reports at its exit what it really ran with (``rank_report.py``),
  and a thread looks at what the main thread does meanwhile (``rank_phases.py``).
- ``TUNE_LIVE_FILE``, while there is such a file: the rank's setting can be changed while it runs
  (``rank_live.py``). The first Python of a rank sets ``TUNE_LIVE_PID``: those that it starts are
  not the rank.

Then it gives way to the ``sitecustomize`` that Python would have found without it.

All files here must run in the oldest Python a user may have: no annotations, nothing newer than
3.6, and nothing beside the standard library. An older Python reads this file, and does nothing.
"""

import atexit
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "TUNE_RANK")
SIZE_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


def _number(names, torchrun_name):
    """Return the first of these variables that is a number; torchrun's if torchrun started it."""
    for name in names + (torchrun_name,) if "TORCHELASTIC_RUN_ID" in os.environ else names:
        value = os.environ.get(name, "")
        if value.isdigit():
            return int(value)
    return None


def _call(module, function, *args):
    """Call a function of a module beside this file; the program sees no module and no error."""
    modules_before = set(sys.modules)
    sys.path.insert(0, _HERE)
    try:
        return getattr(__import__(module), function)(*args)
    except Exception:
        return None
    finally:
        sys.path.remove(_HERE)
        for name in set(sys.modules) - modules_before:
            if name.startswith("rank_"):
                del sys.modules[name]


def _is_worker():
    """Return whether this is a process that ``multiprocessing`` has started anew."""
    with open("/proc/self/cmdline", "rb") as file:
        return b"from multiprocessing." in file.read()


def _is_first():
    """Return whether this is a rank's first Python, or what that became by ``exec``."""
    pid = str(os.getpid())
    return os.environ.setdefault("TUNE_LIVE_PID", pid) == pid


def _start():
    rank, size = _number(RANK_VARIABLES, "RANK"), _number(SIZE_VARIABLES, "WORLD_SIZE")
    if rank is None:
        return
    folder = os.environ.get("TUNE_PROBE_DIR")
    live = os.environ.get("TUNE_LIVE_FILE")
    if _is_worker():
        return
    if live and size is not None and os.path.exists(live) and _is_first():
        _call("rank_live", "start", live, rank, size)
    if folder:
        pid = os.getpid()
        # A forked child inherits this handler: only the process that registered it reports.
        atexit.register(
            lambda: os.getpid() == pid and _call("rank_report", "write", folder, rank, size)
        )
        _call("rank_phases", "start", folder, rank)


class _TunerPackage:
    """Finds ``tuner``, but nothing installed beside it, if the program's environment has none."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        """Return where ``tuner`` is; Python finds its modules by that."""
        if name != "tuner":
            return None
        from importlib.machinery import PathFinder

        folder = os.path.dirname(os.path.dirname(_HERE))
        # In a checkout and on another host `wrappers` lies beside `tuner`, installed in it.
        return PathFinder.find_spec(name, [folder, os.path.dirname(folder)])


def _give_way():
    """Import the ``sitecustomize`` that Python would have found, as if ours were not there.

    Python treats any exception as it always does; it ignores that there is no such module.
    """
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]
    sys.modules.pop("sitecustomize", None)
    import sitecustomize  # noqa: F401


if sys.version_info >= (3, 6):
    _start()
if sys.version_info >= (3, 8):
    sys.meta_path.append(_TunerPackage)  # the last one: what the program finds without us wins
_give_way()
