"""Worker processes: results in order, units done again when a worker ends, nothing left behind."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from leftovers import nothing_is_left_by_the_module  # noqa: F401 - replaces that of tests/conftest.py
from waiting import until

from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.workers.executors import make_executor
from toolorchestra.toolscale.workers.processes import ProcessExecutor
from toolorchestra.toolscale.workers.units import InProcess, Unit, WorkerError, failure, outcome


@pytest.fixture(scope="module")
def two() -> Iterator[ProcessExecutor]:
    """Two workers, which the tests share."""
    with ProcessExecutor(2) as executor:
        yield executor


def powers(count: int) -> Iterator[Unit]:
    return (Unit(("power", n), pow, (2, n)) for n in range(count))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"  # a zombie has ended


def test_results_come_in_the_order_of_the_units(two: ProcessExecutor) -> None:
    slow_first = [Unit((n,), eval, (f"__import__('time').sleep({0.2 if n == 0 else 0}) or {n}",)) for n in range(20)]
    assert list(two.run(slow_first)) == list(range(20))
    assert list(two.run([])) == []


def test_only_a_bounded_number_of_units_is_taken_ahead(two: ProcessExecutor) -> None:
    taken = itertools.count()
    endless = (Unit((n,), abs, (n,)) for n in taken)
    run = two.run(endless)
    assert list(itertools.islice(run, 50)) == list(range(50))
    assert next(taken) <= 50 + 8
    run.close()  # type: ignore[attr-defined]  # a generator


def test_an_exception_is_raised_when_it_is_the_units_turn_and_says_where_it_was(two: ProcessExecutor) -> None:
    run = two.run(Unit((n,), divmod, (6, 3 - n)) for n in range(9))
    assert [next(run) for _ in range(3)] == [(2, 0), (3, 0), (6, 0)]
    with pytest.raises(ZeroDivisionError) as found:
        next(run)
    assert "In a worker" in found.value.__notes__[0]
    assert list(two.run(powers(3))) == [1, 2, 4]  # the pool is still good


def test_a_unit_that_exits_is_an_error_and_does_not_end_the_command(two: ProcessExecutor) -> None:
    with pytest.raises(RuntimeError, match=r"called exit\(0\)"):
        list(two.run([Unit((0,), abs, (1,)), Unit((1,), sys.exit, (0,))]))


def test_errors_of_the_library_arrive_as_they_were() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'get_order'"):
        outcome(failure(UnknownNameError("tool", "get_ordr", ["get_order"])))


def test_a_unit_whose_worker_ends_is_done_again_once(two: ProcessExecutor, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    ends_once = (
        f"[p := __import__('pathlib').Path({str(mark)!r}), p.exists() or p.touch() or __import__('os')._exit(1)]"
    )
    units = [Unit((n,), eval, (ends_once if n == 4 else str(n),)) for n in range(12)]
    found = list(two.run(units))
    assert [*found[:4], *found[5:]] == [*range(4), *range(5, 12)]
    assert len(found) == 12


def test_a_unit_that_ends_its_workers_again_and_again_is_an_error_after_what_was_before_it(
    two: ProcessExecutor,
) -> None:
    run = two.run(Unit(("unit", n), os._exit if n == 2 else abs, (n,)) for n in range(9))
    assert [next(run), next(run)] == [0, 1]
    with pytest.raises(WorkerError, match=r"The worker that did `unit 2` ended 3 times.*kept"):
        next(run)


def test_a_killed_worker_is_replaced(two: ProcessExecutor) -> None:
    working = "(__import__('time').sleep(0.02), __import__('os').getpid())[1]"
    run = two.run(Unit((n,), eval, (working,)) for n in range(30))
    killed = next(run)
    os.kill(killed, signal.SIGKILL)
    found = list(run)
    assert len(found) == 29
    assert found[-1] != killed


def test_closing_ends_the_workers_at_once() -> None:
    with ProcessExecutor(1) as executor:
        run = executor.run([Unit((0,), os.getpid), *(Unit((n,), signal.pause) for n in range(3))])
        pid = next(run)
        assert alive(pid)
    assert not alive(pid)
    executor.close()  # nothing happens


DRIVER = """
import os, signal
from toolorchestra.toolscale.workers.processes import ProcessExecutor
from toolorchestra.toolscale.workers.units import Unit
if __name__ == "__main__":
    with ProcessExecutor(1) as executor:
        for pid in executor.run([Unit((0,), os.getpid), Unit((1,), signal.pause)]):
            print(pid, flush=True)
"""


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_end_with_the_process_that_started_them(tmp_path: Path, by: signal.Signals) -> None:
    file = tmp_path / "driver.py"
    file.write_text(DRIVER, encoding="utf-8")
    with subprocess.Popen([sys.executable, file], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as driver:
        assert driver.stdout
        pid = int(driver.stdout.readline())
        assert alive(pid)
        driver.send_signal(by)
        driver.wait()
    until(lambda: not alive(pid), "the worker ends")


def test_one_worker_needs_no_other_process() -> None:
    executor = make_executor()
    assert isinstance(executor, InProcess)
    assert set(executor.run([Unit((), os.getpid)])) == {os.getpid()}


def test_options_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(OptionError, match="at least one worker, got 0"):
        make_executor(workers=0)
    with pytest.raises(OptionError, match="is for the executor `ray`"):
        make_executor(workers=2, ray_address="auto")
