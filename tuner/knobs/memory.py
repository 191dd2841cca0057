"""How a rank gets its memory."""

from __future__ import annotations

from tuner.model import OFF, ON, UNSET, Choice, Env, Knob

GLIBC = "glibc"

#: What to do with a library that the table does not name.
OTHER_ALLOCATOR = (
    "Another library goes into a study file, as a knob of your own:"
    ' [knobs.preload] env = "LD_PRELOAD" values = ["unset", "/path/to/it.so"].'
)

MEMORY = (
    Knob(
        "allocator",
        Choice((GLIBC, "jemalloc", "tcmalloc")),
        Env(
            ("LD_PRELOAD",)
        ),  # the libraries' paths are found on each host: tuner.config.applicability
        help="the library that malloc comes from",
        why="glibc gives large blocks back to the kernel and takes them anew, page fault by page"
        " fault; jemalloc and tcmalloc keep them, and lock less between threads.",
        source="jemalloc, Getting Started"
        " <https://github.com/jemalloc/jemalloc/wiki/Getting-Started>; TCMalloc of gperftools"
        " <https://gperftools.github.io/gperftools/tcmalloc.html>;"
        " ld.so(8), LD_PRELOAD <https://man7.org/linux/man-pages/man8/ld.so.8.html>",
        neutral=GLIBC,
    ),
    Knob(
        "malloc_arenas",
        Choice((UNSET, 1, 2, 4)),
        Env(("MALLOC_ARENA_MAX",)),
        help="heaps of glibc's malloc in each process",
        why="Threads that allocate at once want a heap each (glibc allows eight a core); fewer"
        " heaps use memory and caches better.",
        source="mallopt(3), M_ARENA_MAX <https://man7.org/linux/man-pages/man3/mallopt.3.html>",
        neutral=UNSET,
        when=(("allocator", (GLIBC,)),),
    ),
    Knob(
        "huge_pages",
        Choice((OFF, ON)),
        Env(("GLIBC_TUNABLES",)),  # the user's own are kept: tuner.config.applicability
        help="transparent huge pages for glibc's malloc",
        why="With pages of 2 MiB instead of 4 KiB large arrays need fewer page faults and entries"
        " of the TLB; where the kernel says madvise, only who asks gets them.",
        source="glibc manual, Memory Allocation Tunables, glibc.malloc.hugetlb"
        " <https://sourceware.org/glibc/manual/latest/html_node/"
        "Memory-Allocation-Tunables.html>",
        neutral=OFF,
        when=(("allocator", (GLIBC,)),),
        needs=("huge_pages",),
    ),
)
