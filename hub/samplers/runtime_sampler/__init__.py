"""The sampler of `tune` for run times."""

from tuner.search import RuntimeSampler

__all__ = ["RuntimeSampler"]
