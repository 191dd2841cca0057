"""The other hosts of a job: an agent on each, and what it does there.

The user's own launcher starts the agents, once a study. Nothing of ours is installed there: the
launcher carries a few lines (:mod:`~tuner.hosts.remote.dial`), the connection the rest.
"""
