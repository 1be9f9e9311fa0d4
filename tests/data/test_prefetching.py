import subprocess
import sys
import threading
import weakref

import pytest

from neox_train.data.prefetching import hand_over_quickly, map_ahead, prefetch


class Item:
    """Something a weak reference can watch."""


def threads() -> int:
    return sum(thread.name == "prefetch" for thread in threading.enumerate())


def test_items_come_in_order_and_are_made_ahead():
    made: list[int] = []
    third = threading.Event()

    def make():
        for number in range(5):
            made.append(number)
            if number == 2:
                third.set()
            yield number

    items = prefetch(make(), depth=2)
    assert next(items) == 0
    assert third.wait(timeout=30)
    assert list(items) == [1, 2, 3, 4] == made[1:]
    assert threads() == 0


def test_an_error_comes_at_its_item():
    def make():
        yield 1
        raise OSError("the disk")

    items = prefetch(make())
    assert next(items) == 1
    with pytest.raises(OSError, match="the disk"):
        next(items)
    assert threads() == 0


def test_closing_ends_the_thread_and_the_source():
    closed = threading.Event()

    def make():
        try:
            while True:
                yield 0
        finally:
            closed.set()

    items = prefetch(make())
    next(items)
    items.close()
    assert closed.is_set() and threads() == 0


def test_no_item_is_kept():
    items = prefetch((Item() for _ in range(50)), depth=2)
    seen = []
    for item in items:
        seen.append(weakref.ref(item))
        del item
        assert sum(reference() is not None for reference in seen) <= 1


@pytest.mark.parametrize("ending", ["", "raise SystemExit(3)", "raise ValueError('x')"])
def test_a_process_ends_in_the_middle(ending):
    code = (
        "import itertools\nfrom neox_train.data.prefetching import prefetch\n"
        f"items = prefetch(itertools.count())\nkept = [next(items), items]\nkept.append(kept)\n{ending}"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False)
    assert done.returncode == {"": 0, "raise SystemExit(3)": 3}.get(ending, 1)


def test_results_come_in_order_from_two_at_work():
    both = threading.Barrier(2, timeout=30)

    def work(number):
        both.wait()  # nobody passes alone
        return 10 * number

    assert list(map_ahead(work, range(6))) == [(number, 10 * number) for number in range(6)]
    assert not any(thread.name.startswith("map_ahead") for thread in threading.enumerate())


def test_an_error_of_the_work_comes_at_its_item_and_closes_the_source():
    closed = []

    def make():
        try:
            yield from (4, 2, 0, 1, 1, 1, 1)
        finally:
            closed.append(True)

    results = map_ahead(lambda number: 8 // number, make())
    assert [next(results), next(results)] == [(4, 2), (2, 4)]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert closed == [True]


def test_work_ahead_is_bounded():
    taken = []

    def make():
        for number in range(100):
            taken.append(number)
            yield number

    results = map_ahead(lambda number: number, make(), workers=2)
    next(results)
    assert len(taken) == 3
    results.close()
    assert len(taken) == 3


def test_the_interpreters_own_interval_comes_back():
    before = sys.getswitchinterval()
    with pytest.raises(OSError), hand_over_quickly():
        assert sys.getswitchinterval() == pytest.approx(1e-4)
        raise OSError
    assert sys.getswitchinterval() == before
