"""A five-trial study in which the k-th commit, fsync, rename, write or lock fails, for every k.

``shim.c`` is preloaded and strikes; ``forks`` runs the real command line in forked processes;
``model`` says what must be there afterwards; ``cases`` lists the faults.
"""
