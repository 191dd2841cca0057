"""Bottlenecks that are really made, to see each of them named."""
