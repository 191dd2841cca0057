"""Bursts in readings, and a meter on files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.hosts.telemetry.network import Burst, Meter, of_steps


def test_a_burst_is_not_its_mean() -> None:
    readings = [(n / 1000, 0) for n in range(40)] + [(0.04 + n / 1000, 10**6) for n in range(11)]
    burst = of_steps(readings)
    assert burst is not None
    assert burst.most_bytes_per_s == pytest.approx(1e9)
    assert burst.columns()["network_busy_share"] == pytest.approx(0.001 / 0.05)


@given(st.lists(st.tuples(st.floats(0, 10), st.integers(0, 2**64)), max_size=30))
def test_whatever_is_read_a_share_is_a_share(readings: list[tuple[float, int]]) -> None:
    burst = of_steps(readings)
    if burst is not None:
        assert burst.most_bytes_per_s >= 0
        assert 0 <= burst.busy_s <= burst.looked_s * (1 + 1e-9)
        assert (burst.most_bytes_per_s > 0) == (burst.busy_s > 0)


def test_windows_are_put_together() -> None:
    one, other = Burst(5.0, 0.01, 0.05), Burst(9.0, 0.0, 0.05)
    assert one.joined(other) == Burst(9.0, 0.01, 0.1)
    assert one.joined(None) is one


def plant(root: Path, interface: str, **counts: str) -> None:
    folder = root / "sys/class/net" / interface / "statistics"
    folder.mkdir(parents=True)
    for name, text in counts.items():
        (folder / name).write_text(text)


def test_a_meter_ends_when_it_is_told(tmp_path: Path) -> None:
    plant(tmp_path, "eth0", rx_bytes="5\n", tx_bytes="7\n")
    meter = Meter("eth0", tmp_path)
    looks = iter([False, False, True])
    burst = meter.window(lambda: next(looks))
    meter.close()
    meter.close()
    assert burst is not None and burst.columns()["network_busy_share"] == 0.0


def test_an_interface_without_counters(tmp_path: Path) -> None:
    plant(tmp_path, "eth0", rx_bytes="5\n")
    with pytest.raises(OSError):
        Meter("eth0", tmp_path)
    plant(tmp_path, "lo", rx_bytes="5\n")
    Meter("lo", tmp_path).close()  # what is sent there comes in as well
