"""What must not be kept or shown: passwords, tokens and keys in commands, URLs and texts.

A secret is known by the name it goes by, by its shape, or as the value of such a variable in
this environment. Programs get the real values; what is stored, exported or said has ``***``.
"""

from tuner.launch.secrets.environment import recorded_environment
from tuner.launch.secrets.files import make_folder
from tuner.launch.secrets.hidden import HIDDEN
from tuner.launch.secrets.names import is_secret, is_secret_variable
from tuner.launch.secrets.redactor import Redactor, kept_record, redact_spec
from tuner.launch.secrets.shapes import hide_shapes

__all__ = [
    "HIDDEN",
    "Redactor",
    "hide_shapes",
    "is_secret",
    "is_secret_variable",
    "kept_record",
    "make_folder",
    "recorded_environment",
    "redact_spec",
]
