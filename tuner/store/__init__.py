"""Stores studies: our table beside those of Optuna, by SQLAlchemy over SQLite or PostgreSQL.

SQLAlchemy takes 0.15 s to import; importing this package does not import it yet.
"""
