import signal

import pytest

from neox_train.training import stop


@pytest.fixture(autouse=True)
def _forget() -> None:
    stop.clear_stop()


def test_the_first_reason_is_kept() -> None:
    assert not stop.stop_requested() and stop.stop_reason() == ""
    stop.request_stop("the wall is near")
    stop.request_stop("again")
    assert stop.stop_requested() and stop.stop_reason() == "the wall is near"
    stop.clear_stop()
    assert not stop.stop_requested()


def test_a_signal_handler_can_ask() -> None:
    before = signal.signal(signal.SIGUSR2, lambda number, frame: stop.request_stop(signal.Signals(number).name))
    try:
        signal.raise_signal(signal.SIGUSR2)
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert stop.stop_reason() == "SIGUSR2"
