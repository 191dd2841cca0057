"""A five-trial study in which the k-th commit, fsync, rename, write or lock fails, for every k.

``shim.c`` is preloaded and strikes; ``server`` runs the real command line in forked processes;
``campaign`` draws the cases and drives it; ``model`` says what must be there afterwards.
"""
