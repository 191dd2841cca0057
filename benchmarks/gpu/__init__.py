"""A run on a bare GPU machine: see README.md here."""
