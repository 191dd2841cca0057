"""Makes one study out of the command line, the study file and the host.

A mistake is a ``UsageError``, which names the value, its place and the next step.
"""
