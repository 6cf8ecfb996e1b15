"""Measure the time of a Python program in each sandbox, and check that no result of many programs is lost.

    python benchmarks/sandbox.py                    latencies side by side, then 10,000 programs at 8 at a time
    python benchmarks/sandbox.py --programs 0       latencies only

Every way runs the same program, which adds two numbers and prints the sum, from the request to the result in hand:

- *fork*: the same worker forks the same process on this machine, outside any container; what `docker, warm` is
  compared with (a `ProcessSandbox`, which isolates nothing, with its files on a tmpfs as in the others);
- *docker, warm* and *bubblewrap, warm*: `DockerSandbox.run` and `BubblewrapSandbox.run`, as users call them;
- *session*: a further call in a session of `DockerSandbox`;
- *docker exec*: a new interpreter in a container that runs already, by the engine's API;
- *docker run* and *bubblewrap, cold*: a new container, or namespace, with a worker, for one program;
- *subprocess*: a new interpreter on this machine.

The ways take turns, so that what else the machine does meets all of them. Not quite alike: the engine's control group
has a share of the processors of its own, which on a busy machine is more than what a plain process gets.

Targets: `docker, warm` at least 10 times below `docker exec`, and within 2.5 times of `fork`, both by median.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from harness import RESULTS, cli, processor

from toolorchestra.envs.tools.sandbox import (
    BubblewrapSandbox,
    DockerSandbox,
    ProcessSandbox,
    ProgramLimits,
    ProgramResult,
    ProgramStatus,
    Sandbox,
)

CODE, ANSWER = "print(1234 + 4321)", "5555\n"
LEAST_GAIN, MAX_OVERHEAD = 10.0, 2.5
ROUNDS, SLOW_EVERY = 400, 10  # the slow ways run in every tenth round


def percentile(times: list[float], share: float) -> float:
    """Return a percentile in milliseconds."""
    return statistics.quantiles(times, n=100, method="inclusive")[round(share * 100) - 1] * 1e3


def measure(ways: dict[str, Callable[[], str]], slow: set[str], rounds: int) -> dict[str, list[float]]:
    """Time each way in turn."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        assert way() == ANSWER
    for turn in range(rounds):
        for name, way in ways.items():
            if name in slow and turn % SLOW_EVERY:
                continue
            start = time.perf_counter()
            answer = way()
            times[name].append(time.perf_counter() - start)
            assert answer == ANSWER, (name, answer)
    return times


def cold(make: Callable[[], Sandbox]) -> Callable[[], str]:
    """Return a way that starts a worker for one program and does away with it."""
    sandbox = make()

    def run() -> str:
        worker = sandbox.start(sandbox.limits)
        sandbox._pool.adopt(worker)
        answer = sandbox.run(CODE).stdout
        sandbox._pool.take(sandbox.limits).close()
        return answer

    sandbox.run("")
    sandbox._pool.take(sandbox.limits).close()
    return run


def executed(sandbox: DockerSandbox, container: str) -> Callable[[], str]:
    """Return the way of ``docker exec``."""
    api = sandbox.client.api

    def run() -> str:
        command = api.exec_create(container, [sandbox.python, "-s", "-c", CODE])
        return str(api.exec_start(command["Id"]).decode())

    return run


def many(sandbox: Sandbox, programs: int) -> tuple[int, int, float]:
    """Run many programs, 8 at a time; return how many answered, how many answered right, and the seconds taken."""

    def run(number: int) -> ProgramResult:
        code = f"import sys\nprint({number} * 3 + int(sys.stdin.read()))\nopen('f', 'w').write('{number}')"
        return sandbox.run(code, stdin=str(number), collect=["f"])

    start = time.perf_counter()
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(run, range(programs)))
    seconds = time.perf_counter() - start
    right = sum(
        result.status is ProgramStatus.OK and result.stdout == f"{i * 4}\n" and result.files == {"f": str(i).encode()}
        for i, result in enumerate(results)
    )
    return len(results), right, seconds


def main(rounds: int = ROUNDS, programs: int = 10_000, record: bool = False) -> bool:
    """Measure, print, and with --record write down."""
    warnings.filterwarnings("ignore", "ProcessSandbox does not isolate")
    tempfile.tempdir = "/dev/shm"  # a tmpfs, for `fork`
    python = "/usr/bin/python3"  # the release that is in the image too
    machine = f"{processor()}, {os.cpu_count()} cores"
    lines = [f"$ python benchmarks/sandbox.py {' '.join(sys.argv[1:])}".rstrip()]
    lines.append(f"{machine}, Linux {platform.release()}, Python {platform.python_version()}")

    with contextlib.ExitStack() as stack:
        docker = stack.enter_context(DockerSandbox(workers=1, cpus=os.cpu_count() or 1))
        wrap = stack.enter_context(BubblewrapSandbox(workers=1, python=python))
        fork = stack.enter_context(ProcessSandbox(workers=1, python=python))
        session = stack.enter_context(docker.session())
        spare = stack.enter_context(contextlib.closing(docker.start(docker.limits)))
        assert session.run("").status is ProgramStatus.OK
        lines += [docker.describe(), wrap.describe(), f"load {os.getloadavg()[0]:.1f} at the start"]
        plain = [python, "-s", "-c", CODE]
        ways: dict[str, Callable[[], str]] = {
            "fork": lambda: fork.run(CODE).stdout,
            "docker, warm": lambda: docker.run(CODE).stdout,
            "bubblewrap, warm": lambda: wrap.run(CODE).stdout,
            "session": lambda: session.run(CODE).stdout,
            "docker exec": executed(docker, spare._container),  # type: ignore[attr-defined]
            "docker run": cold(lambda: stack.enter_context(DockerSandbox(workers=1, cpus=os.cpu_count() or 1))),
            "bubblewrap, cold": cold(lambda: stack.enter_context(BubblewrapSandbox(workers=1, python=python))),
            "subprocess": lambda: subprocess.run(plain, capture_output=True, text=True, check=True).stdout,
        }
        times = measure(ways, {"docker exec", "docker run", "bubblewrap, cold"}, rounds)
        base = statistics.median(times["fork"])
        lines += ["", f"{'':18}{'least ms':>9}{'p50 ms':>9}{'p95 ms':>9}{'x fork':>9}{'runs':>7}"]
        for name, spent in times.items():
            p50, p95 = percentile(spent, 0.5), percentile(spent, 0.95)
            lines.append(f"{name:18}{min(spent) * 1e3:9.2f}{p50:9.2f}{p95:9.2f}{p50 / base / 1e3:9.2f}{len(spent):7}")
        gain = statistics.median(times["docker exec"]) / statistics.median(times["docker, warm"])
        overhead = statistics.median(times["docker, warm"]) / base
        lines += [
            "",
            f"docker exec / docker, warm: {gain:.1f} (at least {LEAST_GAIN:g})",
            f"docker, warm / fork: {overhead:.2f} (at most {MAX_OVERHEAD:g})",
        ]
    fine = gain >= LEAST_GAIN and overhead <= MAX_OVERHEAD

    makers: list[Callable[[], Sandbox]] = [
        lambda: DockerSandbox(workers=8, limits=ProgramLimits(seconds=60)),
        lambda: BubblewrapSandbox(workers=8, limits=ProgramLimits(seconds=60)),
    ]
    for make in makers if programs else ():
        with make() as sandbox:
            answered, right, seconds = many(sandbox, programs)
        fine = fine and answered == right == programs
        rate = f"{programs / seconds:.0f} a second"
        lines.append(
            f"{sandbox.name}: {programs} programs, 8 at a time: {programs - answered} lost, "
            f"{answered - right} mixed up, {seconds:.1f} s ({rate})"
        )
    text = "\n".join(itertools.chain(lines, [""]))
    print(text, end="")
    if record:
        (RESULTS / "sandbox.txt").write_text(text, encoding="utf-8")
    return not fine


if __name__ == "__main__":
    cli(main)
