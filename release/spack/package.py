# SPDX-License-Identifier: MIT
from spack.package import *
from spack_repo.builtin.build_systems.python import PythonPackage


class PyRuntimeTuner(PythonPackage):
    """Finds the fastest runtime setting for a distributed training job and proves it."""

    homepage = "https://pypi.org/project/runtime-tuner/"
    pypi = "runtime-tuner/runtime_tuner-0.1.0.tar.gz"

    license("MIT", checked_by="tuner")

    # The sum of the sdist, once PyPI has it.
    version("0.1.0", sha256="0000000000000000000000000000000000000000000000000000000000000000")

    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-setuptools@68:", type="build")
    depends_on("py-click@8.1:8", type=("build", "run"))
    depends_on("py-jinja2@3.1:", type=("build", "run"))
    depends_on("py-numpy@1.26:", type=("build", "run"))
    depends_on("py-optuna@5.0:5", type=("build", "run"))
    depends_on("py-regex@2024.5:", type=("build", "run"))
    depends_on("py-rich@13.7:", type=("build", "run"))
    depends_on("py-sqlalchemy@2.0:2", type=("build", "run"))
