"""What the cases share: a command line without the user's own variables, in an empty folder."""

from tests.cli.conftest import mpirun, tune

__all__ = ["mpirun", "tune"]
