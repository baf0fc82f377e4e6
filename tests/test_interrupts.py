import weakref

import pytest

from litebert.interrupts import free_semaphores


class Held:
    """What the tracker of resources would complain of."""


def test_what_interrupted_functions_held_is_let_go() -> None:
    references: list[weakref.ref[Held]] = []

    def work() -> None:
        held = Held()
        references.append(weakref.ref(held))
        raise KeyboardInterrupt

    def clean_up() -> None:
        try:
            work()
        finally:
            raise SystemExit  # of which the interrupt is then the context

    with pytest.raises(SystemExit):
        try:
            clean_up()
        except SystemExit:
            assert references[0]() is not None
            free_semaphores()
            assert references[0]() is None
            raise
