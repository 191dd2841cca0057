"""One parser's test with inputs that atheris chooses by coverage, until it is interrupted.

``python -m campaigns.guided tests/parsers/test_of_users.py test_a_study_file [-runs=100000]``
"""

from __future__ import annotations

import importlib
import sys

if __name__ == "__main__":
    import atheris

    path, name, *options = sys.argv[1:]
    with atheris.instrument_imports(include=["tuner"]):
        module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    atheris.Setup([name, *options], getattr(module, name).hypothesis.fuzz_one_input)
    atheris.Fuzz()
