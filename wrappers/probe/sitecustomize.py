"""Reports which thread counts a rank's Python really ran with; found through PYTHONPATH.

Python imports a module of this name when it starts. Ours does nothing unless it runs in a rank
of a trial (``TUNE_PROBE_DIR`` and a rank variable are set); there it registers one exit handler,
notes whether OpenCV is imported (by the rank or by a loader worker: those do not report),
starts the thread of ``rank_phases.py``, which looks at what the main thread does,
and gives way to the ``sitecustomize`` that Python would have found without it. All that costs
time is in ``rank_report.py``, which the handler loads after the program's own last line. A
program that is killed or leaves through ``os._exit`` does not get that far: of it only the
phases are seen. If ``TUNE_LIVE_SOCKET`` is set too, ``rank_live.py`` is loaded.

It must run in the oldest Python a user may have: no annotations, nothing newer than 3.6.
"""

import atexit
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
# Others set RANK too: it counts in what torchrun has started.
TORCHRUN_RANK, TORCHRUN = "RANK", "TORCHELASTIC_RUN_ID"


def _rank():
    torchrun = (TORCHRUN_RANK,) if TORCHRUN in os.environ else ()
    for name in RANK_VARIABLES + torchrun:
        value = os.environ.get(name, "")
        if value.isdigit():
            return int(value)
    return None


def _load(name):
    """A module beside this file, under a name that no program has."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("tune_" + name, f"{_HERE}/{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _at_exit(folder, rank, pid):
    # A forked child inherits this handler: only the process that registered it reports.
    if os.getpid() != pid:
        return
    try:
        report = _load("rank_report")
        if not report.is_worker():
            report.write(folder, rank)
    except Exception:  # the report is lost; the program's own exit must not show it
        pass


class _Witness:
    """An import finder that finds nothing: it only notes that ``cv2`` was asked for."""

    def __init__(self, path):
        self._path = path

    def find_spec(self, name, *_):
        if name == "cv2":
            try:  # noqa: SIM105 - contextlib would cost every start its import
                os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600))
            except OSError:  # the program must not notice
                pass


def _look(folder, rank):
    """Have the main thread looked at, if that can be."""
    try:
        import rank_phases

        atexit.register(rank_phases.start(folder, rank))
    except Exception:
        pass
    for name in ("rank_phases", "rank_looks"):  # no program finds them
        sys.modules.pop(name, None)


def _give_way():
    """Import the ``sitecustomize`` that comes after ours, as if ours were not there.

    What it raises goes on to Python, which treats it as it always does.
    """
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]  # noqa: PTH100
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
        if ours is not None:
            sys.modules["sitecustomize"] = ours


def _start_profile(folder, rank):
    try:
        report = _load("rank_report")
        if not report.is_worker():
            report.start_profile(folder, rank)
    except Exception:  # the program must not notice
        pass


def _live(path, rank):
    """Let the rank's setting be changed while it runs, if the program takes part."""
    known = set(sys.modules)
    try:
        import rank_live

        rank_live.start(path, rank)
    except Exception:  # the program must not notice
        pass
    for name in set(sys.modules) - known:  # no program finds them
        if name.startswith(("rank_live", "rank_report")):
            del sys.modules[name]


def _start():
    folder = os.environ.get("TUNE_PROBE_DIR")
    profiles = os.environ.get("TUNE_PROFILE_DIR")
    rank = _rank()
    live = os.environ.get("TUNE_LIVE_SOCKET")
    if live and rank is not None:
        _live(live, rank)
    if profiles and rank is not None:
        _start_profile(profiles, rank)
    if folder and rank is not None:
        atexit.register(_at_exit, folder, rank, os.getpid())
        sys.meta_path.insert(0, _Witness(os.path.join(folder, f"rank-{rank}.cv2")))  # noqa: PTH118
        _look(folder, rank)


_start()
_give_way()
