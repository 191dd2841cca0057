"""On which cores ranks and their threads run."""

from __future__ import annotations

from tuner.model import UNSET, Choice, Env, Knob, LauncherOption

#: OpenMP's policies under which places have a meaning.
_PLACED = ("close", "spread")

BINDING = (
    Knob(
        "bind_to",
        Choice(("none", "core", "socket", "numa")),
        LauncherOption("bind_to"),
        help="what each rank is bound to",
        why="A bound rank keeps its caches and the memory that it touched first; one that is"
        " bound too tightly runs all its threads and loader workers on one core.",
        source="mpirun(1) of Open MPI 5, Mapping, Ranking, and Binding"
        " <https://docs.open-mpi.org/en/v5.0.x/man-openmpi/man1/mpirun.1.html>;"
        " MPICH, Using the Hydra process manager"
        " <https://github.com/pmodels/mpich/blob/main/doc/wiki/how_to/"
        "Using_the_Hydra_Process_Manager.md>",
        neutral="none",
        needs=("room",),
        usual=True,
    ),
    Knob(
        "map_by",
        # By core is the order of the slots. What is dealt out by NUMA node cannot be bound to
        # a socket: Open MPI 5 refuses to bind to more than it maps by.
        Choice(("slot", "socket", "numa")),
        LauncherOption("map_by"),
        help="in which order ranks are dealt out to the places that they are bound to",
        why="Neighbouring ranks on one socket exchange through its cache; dealt out over the"
        " sockets each has more memory bandwidth to itself.",
        source="mpirun(1) of Open MPI 5, Mapping, Ranking, and Binding"
        " <https://docs.open-mpi.org/en/v5.0.x/man-openmpi/man1/mpirun.1.html>",
        when=(("bind_to", ("core", "numa")),),
        needs=("places",),
    ),
    Knob(
        "omp_proc_bind",
        Choice((UNSET, "false", *_PLACED)),
        Env(("OMP_PROC_BIND",)),
        help="whether OpenMP threads stay on their places, close together or spread out",
        why="Threads that stay keep their caches; close ones share a cache, spread ones memory"
        " bandwidth. Ranks that are not bound may all choose the same places.",
        source="OpenMP 5.2, section 21.1.4, OMP_PROC_BIND"
        " <https://www.openmp.org/spec-html/5.2/openmpse61.html>",
        neutral=UNSET,
    ),
    Knob(
        "omp_places",
        Choice(("cores", "threads", "sockets")),
        Env(("OMP_PLACES",)),
        help="what a place of an OpenMP thread is",
        why="A thread on a hardware thread cannot move; on a core or a socket the kernel may"
        " still balance it within.",
        source="OpenMP 5.2, section 21.1.6, OMP_PLACES"
        " <https://www.openmp.org/spec-html/5.2/openmpse63.html>",
        when=(("omp_proc_bind", _PLACED),),
    ),
)
