"""Fuzzers over everything that reads what the tool did not write itself.

``python -m fuzz --count 100000`` runs them all; see :mod:`fuzz.__main__`.
"""
