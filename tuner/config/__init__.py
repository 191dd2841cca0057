"""What was asked for: the command line, the study file and the host, made into one study.

What is wrong is a ``UsageError``, which names the value, its place and the next step.
"""
