"""Trainers that ship with ``tune``; each is a script that is run by its path."""
