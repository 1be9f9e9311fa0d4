import os
import signal
import time

from neox_train.cluster.stop_signals import StopSignals


def test_a_signal_ends_the_pause_and_is_counted() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopSignals() as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        began = time.monotonic()
        signals.pause(60)
        assert time.monotonic() - began < 30
        assert (signals.count, signals.name) == (1, "SIGTERM")
        signals.pause(0.01)
        os.kill(os.getpid(), signal.SIGHUP)
        signals.pause(60)
        assert (signals.count, signals.name) == (2, "SIGHUP")
    assert signal.getsignal(signal.SIGTERM) is before
