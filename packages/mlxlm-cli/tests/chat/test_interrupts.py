import os
import signal

import pytest
from mlxlm_cli.chat.interrupts import stoppable


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_press_asks_and_the_second_insists() -> None:
    with stoppable() as stop:
        assert not stop()
        press()
        assert stop()
        with pytest.raises(KeyboardInterrupt):
            press()


def test_ctrl_c_is_as_before_after_the_block() -> None:
    before = signal.getsignal(signal.SIGINT)
    with stoppable():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
