"""What programs see and what comes back, whatever runs them."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from waiting import until

from toolorchestra.envs.tools.sandbox import BACKENDS, ProgramLimits, ProgramStatus, Sandbox, make_sandbox
from toolorchestra.toolscale.common.errors import OptionError, SandboxError


def test_a_program_gets_its_input_and_gives_its_output(any_sandbox: Sandbox) -> None:
    code = "import sys\nname = input()\nprint(f'Hello {name}!')\nprint('é', sys.stdin.read(), file=sys.stderr)"
    result = any_sandbox.run(code, stdin="Ada\nλ")
    assert (result.status, result.exit_code) == (ProgramStatus.OK, 0)
    assert (result.stdout, result.stderr) == ("Hello Ada!\n", "é λ\n")
    assert result.seconds > 0
    assert not result.lost


def test_files_go_in_and_come_out(any_sandbox: Sandbox) -> None:
    code = "data = open('in/a.bin', 'rb').read()\nopen('out.bin', 'wb').write(data[::-1])\nprint(open('b').read())"
    given = {"in/a.bin": bytes(range(256)), "b": "text"}
    result = any_sandbox.run(code, files=given, collect=["out.bin", "in/a.bin", "absent"])
    assert result.stdout == "text\n"
    assert result.files == {"out.bin": bytes(range(255, -1, -1)), "in/a.bin": bytes(range(256))}


@pytest.mark.parametrize(
    ("code", "exit_code", "stderr"),
    [
        (
            "def f():\n    return 1 / 0\nf()",
            1,
            'Traceback (most recent call last):\n  File "<program>", line 3, in <module>\n    f()\n'
            '  File "<program>", line 2, in f\n    return 1 / 0\n           ~~^~~\n'
            "ZeroDivisionError: division by zero\n",
        ),
        ("def f(:", 1, '  File "<program>", line 1\n    def f(:\n          ^\nSyntaxError: invalid syntax\n'),
        ("raise SystemExit(7)", 7, ""),
        ("import sys; sys.exit('so long')", 1, "so long\n"),
        ("import os; os._exit(9)", 9, ""),
        ("import os; os.abort()", -6, ""),
        ("import ctypes; ctypes.string_at(0)", -11, ""),
    ],
)
def test_a_program_that_fails_is_a_result(any_sandbox: Sandbox, code: str, exit_code: int, stderr: str) -> None:
    result = any_sandbox.run(code)
    assert (result.status, result.exit_code) == (ProgramStatus.ERROR, exit_code)
    assert result.stderr == stderr
    assert any_sandbox.run("print('next')").stdout == "next\n"


def test_a_program_runs_as_python_would_run_it(any_sandbox: Sandbox) -> None:
    code = """if __name__ == "__main__":
    import atexit, pickle, sys, threading
    class A: pass
    assert type(pickle.loads(pickle.dumps(A()))) is A
    atexit.register(print, "at exit")
    threading.Thread(target=lambda: (threading.main_thread().join(), print("thread"))).start()
    print("main", sys.argv, end="")
    sys.exit(0)"""
    assert any_sandbox.run(code).stdout == "main ['<program>']thread\nat exit\n"


@pytest.mark.parametrize(
    ("code", "limits", "status"),
    [
        ("while True: pass", ProgramLimits(seconds=0.3), ProgramStatus.TIMEOUT),
        ("while True: print('y' * 99)", ProgramLimits(output_bytes=5000), ProgramStatus.OUTPUT),
        ("open('big', 'w').write('y' * 6000)", ProgramLimits(output_bytes=5000), ProgramStatus.OUTPUT),
        ("b'y' * (400 << 20)", ProgramLimits(memory_mb=64), ProgramStatus.MEMORY),
        ("def f(): raise MemoryError\nf()", ProgramLimits(), ProgramStatus.MEMORY),
    ],
)
def test_a_program_is_stopped_at_its_limits(
    any_sandbox: Sandbox, code: str, limits: ProgramLimits, status: ProgramStatus
) -> None:
    result = any_sandbox.run(code, limits=limits, collect=["big"])
    assert result.status is status
    assert result.exit_code is None or status is not ProgramStatus.TIMEOUT
    assert len(result.stdout) <= limits.output_bytes


def test_what_a_program_wrote_before_its_time_was_up_is_kept(any_sandbox: Sandbox) -> None:
    for seconds in (0.2, 2, 20):  # until the program has begun within its time
        result = any_sandbox.run("import signal; print('begun'); signal.pause()", limits=ProgramLimits(seconds=seconds))
        assert result.status is ProgramStatus.TIMEOUT
        if result.stdout:
            break
    assert result.stdout == "begun\n"


def test_nothing_passes_from_one_program_to_the_next(any_sandbox: Sandbox) -> None:
    first = (
        "import builtins, os, sys\nx = 1\nbuiltins.len = sys.modules['json'] = os.environ['X'] = 'y'\nopen('f', 'w')"
    )
    assert any_sandbox.run(first).status is ProgramStatus.OK
    second = "import json, os\nprint(len('abc'), json.dumps(1), 'X' in os.environ, os.listdir(), 'x' in globals())"
    assert any_sandbox.run(second).stdout == "3 1 False [] False\n"


def test_sets_have_one_order_and_random_numbers_differ(any_sandbox: Sandbox) -> None:
    orders, numbers = set(), set()
    for _ in range(3):
        order, number = any_sandbox.run(
            "import random\nprint({*'abcdefgh'})\nprint(random.random())"
        ).stdout.splitlines()
        orders.add(order)
        numbers.add(number)
    assert (len(orders), len(numbers)) == (1, 3)


def test_programs_run_at_the_same_time_and_none_is_mixed_up(any_sandbox: Sandbox) -> None:
    def run(number: int) -> str:
        return any_sandbox.run(f"import sys; print({number} * 7, sys.stdin.read())", stdin=str(number)).stdout

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(run, range(200))) == [f"{number * 7} {number}\n" for number in range(200)]


def test_a_session_keeps_variables_until_its_process_ends(any_sandbox: Sandbox) -> None:
    with any_sandbox.session() as session, any_sandbox.session() as other:
        assert session.run("x = 20\nopen('f', 'w').write('1')").status is ProgramStatus.OK
        assert session.run("print(x + int(open('f').read()) + int(input()))", stdin="3").stdout == "24\n"
        assert session.run("x", files={"g": "2"}).status is ProgramStatus.OK
        assert session.run("print(open('g').read())", collect=["g"]).files == {"g": b"2"}
        failed = session.run("y = 1\n1 / 0")
        assert (failed.status, failed.exit_code, failed.lost) == (ProgramStatus.ERROR, 1, False)
        assert session.run("print(x + y)").stdout == "21\n"
        assert other.run("x").stderr.endswith("NameError: name 'x' is not defined\n")
        ended = session.run("import os; os._exit(0)")
        assert (ended.status, ended.lost) == (ProgramStatus.OK, True)
        assert session.run("x").stderr.endswith("NameError: name 'x' is not defined\n")
    assert any_sandbox.run("import os; print(os.listdir())").stdout == "[]\n"


def test_a_session_that_is_stopped_starts_anew(any_sandbox: Sandbox) -> None:
    with any_sandbox.session(ProgramLimits(seconds=0.5)) as session:
        session.run("x = 1")
        stopped = session.run("while True: pass")
        assert (stopped.status, stopped.lost) == (ProgramStatus.TIMEOUT, True)
        assert session.run("print('x' in globals())").stdout == "False\n"
        large = "#" * 300_000  # more than a pipe holds
        assert session.run(large + "\nprint(1)").stdout == "1\n"
        assert session.run(large + "\nprint(2)").stdout == "2\n"


def test_other_limits_get_a_worker_of_their_own(any_sandbox: Sandbox) -> None:
    code = "import resource; print(resource.getrlimit(resource.RLIMIT_AS)[0] >> 20)"
    for memory in (128, 100, 128, 90):
        assert any_sandbox.run(code, limits=ProgramLimits(memory_mb=memory)).stdout == f"{memory}\n"


def test_preloaded_modules_are_there_and_missing_ones_are_skipped(make: Callable[..., Sandbox]) -> None:
    with make("process", workers=1, preload=["colorsys", "no_such_module"]) as sandbox:
        assert sandbox.run("import sys; print('colorsys' in sys.modules)").stdout == "True\n"


@pytest.mark.parametrize("name", ["../up", "/etc/passwd", "a/../../b", "", ".", "nul\0"])
def test_files_stay_inside(any_sandbox: Sandbox, name: str) -> None:
    with pytest.raises(OptionError, match="relative name"):
        any_sandbox.run("", files={name: ""})
    with pytest.raises(OptionError, match="relative name"):
        any_sandbox.run("", collect=[name])


def test_source_that_is_no_text_is_the_programs_fault(any_sandbox: Sandbox) -> None:
    assert any_sandbox.run("print('\ud800')").stdout == "?\n"
    assert any_sandbox.run("\0").status is ProgramStatus.ERROR


@pytest.mark.parametrize("options", [{"seconds": 0}, {"memory_mb": -1}, {"output_bytes": float("nan")}])
def test_limits_are_positive(options: dict[str, float]) -> None:
    with pytest.raises(OptionError, match="positive"):
        ProgramLimits(**options)  # type: ignore[arg-type]


def test_a_worker_that_dies_is_replaced_and_the_program_runs_again(make: Callable[..., Sandbox]) -> None:
    with make("process", workers=1) as sandbox:
        sandbox.run("")
        worker = int(sandbox.run("import os; print(os.getppid())").stdout)
        os.kill(worker, 9)
        assert sandbox.run("print('again')").stdout == "again\n"


def test_a_program_that_kills_its_worker_twice_is_to_blame(make: Callable[..., Sandbox]) -> None:
    with make("process", workers=1) as sandbox:  # the one kind in which it can
        result = sandbox.run("import os; os.kill(os.getppid(), 9)")
        assert result.status is ProgramStatus.ERROR
        assert "brought its sandbox down" in result.stderr
        with sandbox.session() as session:
            assert session.run("import os; os.kill(os.getppid(), 9)").lost
            assert session.run("print(1)").stdout == "1\n"


def test_workers_work_at_the_same_time_and_closing_ends_what_they_run(
    any_sandbox: Sandbox, make: Callable[..., Sandbox], named: Callable[[str], list[int]]
) -> None:
    name = uuid.uuid4().hex[:15]
    endless = f"import ctypes, signal; ctypes.CDLL(None).prctl(15, b'{name}', 0, 0, 0); signal.pause()"
    sandbox = make(any_sandbox.name, workers=2)
    with ThreadPoolExecutor(2) as threads:
        programs = [threads.submit(sandbox.run, endless) for _ in range(2)]
        try:
            until(lambda: len(named(name)) == 2, "both programs run")
        finally:
            sandbox.close()
        for program in programs:
            with pytest.raises(SandboxError):
                program.result()
    assert named(name) == []
    with pytest.raises(SandboxError, match="closed"):
        sandbox.run("")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # that there are threads is the point
def test_a_forked_process_gets_workers_of_its_own(any_sandbox: Sandbox) -> None:
    any_sandbox.run("")
    pid = os.fork()
    if pid == 0:
        try:
            fine = all(any_sandbox.run(f"print({i})").stdout == f"{i}\n" for i in range(20))
            any_sandbox.close()
            os._exit(0 if fine else 1)
        finally:
            os._exit(2)
    assert all(any_sandbox.run(f"print(-{i})").stdout == f"{-i}\n" for i in range(20))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_auto_takes_the_strongest_and_says_why(make: Callable[..., Sandbox], monkeypatch: pytest.MonkeyPatch) -> None:
    with make("bubblewrap", workers=1):
        pass

    def missing(**options: object) -> Sandbox:
        raise SandboxError("The engine is missing.")

    monkeypatch.setitem(BACKENDS, "docker", missing)
    with make_sandbox(workers=1) as sandbox:
        assert sandbox.name == "bubblewrap"
        assert sandbox.isolates
        assert "not docker: The engine is missing." in sandbox.choice


def test_auto_refuses_rather_than_not_isolating(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    with pytest.raises(SandboxError) as refused:
        make_sandbox("auto")
    for part in ("Docker", "bubblewrap", "sandbox='process'", "not docker:", "not bubblewrap:"):
        assert part in str(refused.value)


def test_auto_takes_docker_before_bubblewrap(make: Callable[..., Sandbox]) -> None:
    for kind in ("bubblewrap", "docker"):
        with make(kind, workers=1):
            pass
    with make_sandbox("auto") as sandbox:
        assert sandbox.name == "docker"
        assert sandbox.isolates


READS_ALL = """
import os
import subprocess
import sys
found = [name for name in os.listdir('/proc') if name.isdigit()]
for name in found:
    for file in ('environ', 'mem', 'maps'):
        try:
            with open(f'/proc/{name}/{file}', 'rb') as opened:
                if b'FOR_NO_PROGRAM' in (opened.read(1 << 20) if file == 'environ' else b''):
                    print('read', name)
        except OSError:
            continue
        if file == 'mem' and int(name) != os.getpid():
            print('opened', name)
print(os.environ.get('API_KEY'), str(OWNER) in found)
"""


def test_a_process_cannot_read_the_environment_of_the_one_that_started_it(make: Callable[..., Sandbox]) -> None:
    with make("process", workers=1) as sandbox, sandbox._pool.worker(sandbox.limits) as worker:
        if not worker.apart:
            pytest.skip("This kernel lets this user make no user namespace.")
    owner = (
        "import os, warnings\nwarnings.simplefilter('ignore')\n"
        "from toolorchestra.envs.tools.sandbox import make_sandbox\n"
        f"with make_sandbox('process', workers=1) as sandbox:\n"
        f"    print(sandbox.run({READS_ALL!r}.replace('OWNER', str(os.getpid()))).stdout)"
    )
    key = {"API_KEY": "FOR_NO_PROGRAM"}  # that which /proc shows is what a process was started with
    done = subprocess.run([sys.executable, "-c", owner], env=os.environ | key, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("None True\n\n", "")


def test_threads_and_processes_are_counted_where_nothing_else_bounds_them(make: Callable[..., Sandbox]) -> None:
    """`ProcessSandbox` has no control group, and the kernel counts this user's processes, all of them, as one."""
    thread = "import threading\nfor _ in range(40): threading.Thread(target=threading.Event().wait).start()"
    process = "import os, signal\nfor _ in range(40):\n    if os.fork() == 0: signal.pause()\nsignal.pause()"
    limits = ProgramLimits(seconds=60, memory_mb=8_000, pids=16)  # with memory for the stacks of all threads
    with make("process", workers=1, limits=limits) as sandbox:
        for code in (thread, process):
            result = sandbox.run(code)
            assert result.status is ProgramStatus.ERROR
            assert "processes and threads, of 16 at most." in result.stderr
