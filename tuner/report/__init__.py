"""A study as one page: its words and its figures."""
