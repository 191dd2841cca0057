"""Many settings measured in one running job, a window of its iterations each."""
