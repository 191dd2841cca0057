"""The loop: ask, measure, tell. Optuna is imported only when it runs."""
