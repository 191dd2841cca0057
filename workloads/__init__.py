"""Trainers that ship with ``tune``: scripts, which are run by their path."""
