"""What is kept of an environment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.launch.secrets import HIDDEN, recorded_environment
from tuner.launch.secrets.redactor import FAMILIES, NAMES


def test_only_what_bears_on_speed_is_recorded() -> None:
    kept = {
        "CHAINER_SEED": "1",
        "CUDA_VISIBLE_DEVICES": "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
        "LD_PRELOAD": "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
        "NCCL_DEBUG": "INFO",
        "OMPI_MCA_btl": "^openib,self",
        "OMP_NUM_THREADS": "4",
        "OMP_PLACES": "{0:4}:2",
    }
    dropped: tuple[str, ...] = (
        "HOME",
        "PATH",
        "AWS_SECRET_ACCESS_KEY",
        "OMP_TOKEN",
        "CHAINER_API_KEY",
    )
    dropped += ("OMP_API_TOKEN", "OMP_CANARY", "MPICH_PASSWORD", "NCCL_credential", "UCX_KEY")
    dropped += ("MY_OMP_NUM_THREADS", "OMP_NUM_THREADS_", "MKL_LICENSE", "omp_num_threads")
    assert recorded_environment({**kept, **dict.fromkeys(dropped, "x")}) == kept


@pytest.mark.parametrize(
    "value", ["Zq7canary0Vw9xZq7canary", "http://me:word@host", "a\nb", "ghp_0123456789abcdefghij"]
)
def test_what_may_be_a_secret_is_hidden_though_its_name_says_nothing(value: str) -> None:
    shown = recorded_environment({"UCX_OTHER": value, "OMPI_MCA_x": f"a,{value}"})
    assert shown["UCX_OTHER"] in (HIDDEN, "http://me:***@host")
    assert value not in shown["OMPI_MCA_x"]


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_no_other_name_is_kept(environ: dict[str, str]) -> None:
    assert all(n in NAMES or n.startswith(FAMILIES) for n in recorded_environment(environ))
