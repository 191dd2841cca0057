"""The pruner of `tune` for run times."""

from tuner.search import RacePruner

__all__ = ["RacePruner"]
