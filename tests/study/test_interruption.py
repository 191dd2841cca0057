from __future__ import annotations

import os
import signal

import pytest

from tuner.study.interruption import Interruption


def test_the_first_signal_is_noted_the_second_raises() -> None:
    original = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with Interruption() as stop:
            assert not stop()
            os.kill(os.getpid(), signal.SIGINT)
            assert stop() and stop.signal_number == signal.SIGINT
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
            for _ in range(3):
                os.kill(os.getpid(), signal.SIGINT)  # the clean-up goes on
        assert signal.getsignal(signal.SIGINT) == signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, original)


def test_what_is_held_is_brought_to_its_end_first() -> None:
    original = signal.signal(signal.SIGINT, signal.default_int_handler)
    done = []
    try:
        with Interruption() as stop:
            with pytest.raises(KeyboardInterrupt), stop.held():
                with stop.held():
                    for _ in range(3):
                        os.kill(os.getpid(), signal.SIGINT)
                done.append("kept")
            with stop.held():
                done.append("raised once")
    finally:
        signal.signal(signal.SIGINT, original)
    assert done == ["kept", "raised once"]


def test_an_ignored_signal_stays_ignored() -> None:
    original = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interruption() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop()
    finally:
        signal.signal(signal.SIGHUP, original)
