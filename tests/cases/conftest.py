"""What the cases share: a command line without the user's own variables, in an empty folder."""

from tests.cli.conftest import database, mpirun, tune

__all__ = ["database", "mpirun", "tune"]
