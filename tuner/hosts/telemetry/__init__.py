"""A light sampler of what a launch does to its host and its ranks, for `tuner.model.Telemetry`."""

from tuner.hosts.telemetry.sampler import Sampler

__all__ = ["Sampler"]
