"""The command line: one file a command; the only package that prints or exits."""
