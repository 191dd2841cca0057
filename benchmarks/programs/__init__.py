"""Real programs, tuned one after the other: `python -m benchmarks.programs`."""
