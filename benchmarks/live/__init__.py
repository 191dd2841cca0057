"""Windows of a running job against cold launches: their times, and what a search takes."""
