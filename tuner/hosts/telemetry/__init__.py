"""A light recorder of what a launch does to its host and its ranks, for `tuner.model.Telemetry`."""
