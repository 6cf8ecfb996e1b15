"""Programs that try to get out, to do harm, or to leave something behind, and what is seen of it from outside."""

from __future__ import annotations

import os
import platform
import socket
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from toolorchestra.envs.tools.sandbox import ProgramLimits, ProgramResult, ProgramStatus, Sandbox, seccomp

MACHINE = platform.machine()
NUMBERS = {
    name: numbers[list(seccomp.MACHINES).index(MACHINE)]
    for name, numbers in {**seccomp.REFUSED, **{name: pair for name, (_, pair) in seccomp.ONLY_ITSELF.items()}}.items()
    if MACHINE in seccomp.MACHINES
}

PRELUDE = """
import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def attempt(call, *args, **more):
    try:
        found = call(*args, **more)
    except (OSError, ImportError) as error:
        print("refused")
    else:
        print("DONE", call, found)
def syscall(name, *args):
    if libc.syscall(NUMBERS[name], *args) == -1:
        raise OSError(ctypes.get_errno(), name)
def write(path, text):
    with open(path, "w") as file:
        file.write(text)
def read(path):
    with open(path, "rb") as file:
        return file.read(4096)
"""


def run(sandbox: Sandbox, code: str, **more: object) -> ProgramResult:
    return sandbox.run(f"NUMBERS = {NUMBERS}\n{PRELUDE}\n{code}", **more)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _next_program_finds_a_clean_place(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a program did, the next one runs as if it had never been."""
    sandbox = request.getfixturevalue("bounded" if "bounded" in request.fixturenames else "sandbox")
    yield
    code = "import os; print(os.listdir('/tmp'), os.listdir('/dev/shm'), os.listdir(), os.getppid())"
    assert sandbox.run(code).stdout == "['work'] [] [] 1\n"


REFUSED = {
    # The network
    "see an interface": "attempt(open, '/sys/class/net/eth0')\nattempt(open, '/sys/class/net/docker0')",
    "reach the machine's hypervisor by vsock": "attempt(socket.socket, socket.AF_VSOCK)",
    "open packet, netlink and Bluetooth sockets": """
for family in (socket.AF_PACKET, socket.AF_NETLINK, socket.AF_BLUETOOTH, socket.AF_CAN, socket.AF_TIPC, 38):
    attempt(socket.socket, family, socket.SOCK_RAW)""",
    "open a raw IP socket": "attempt(socket.socket, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)",
    "reach another network": "attempt(socket.create_connection, ('192.0.2.1', 80), timeout=1)",
    "send a datagram out": "attempt(socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto, b'x', ('192.0.2.1', 53))",
    "ask the engine": """
for path in ('/var/run/docker.sock', '/run/docker.sock', '/run/containerd/containerd.sock'):
    attempt(socket.socket(socket.AF_UNIX).connect, path)""",
    # Files
    "read the machine's passwords": """
attempt(read, '/etc/shadow')
attempt(os.listdir, '/root')
attempt(os.listdir, '/home/x')""",
    "change the system": """
for path in ('/x', '/usr/bin/x', '/etc/x', '/bin/x', '/lib/x', '/run/x', '/dev/x'):
    attempt(write, path, 'x')""",
    "change the interpreter": """
import json
attempt(write, os.__file__, 'x')
attempt(write, json.__file__, 'x')
attempt(write, sys.executable, 'x')""",
    "remount the root": """
attempt(syscall, 'mount', b'none', b'/', b'', 32, b'')
attempt(syscall, 'mount', b'tmpfs', b'/tmp', b'tmpfs', 0, b'')""",
    "mount by the new calls": "attempt(syscall, 'fsopen', b'tmpfs', 0)\nattempt(syscall, 'open_tree', -100, b'/', 1)",
    "unmount": "attempt(syscall, 'umount2', b'/proc/sys', 2)",
    "change the root": "attempt(os.chroot, '/tmp')\nattempt(syscall, 'pivot_root', b'/tmp', b'/tmp')",
    "open files by handle": "attempt(syscall, 'open_by_handle_at', 3, b'x' * 16, 0)",
    "make devices": "for kind in (0o60600, 0o20600): attempt(os.mknod, '/tmp/device', kind, os.makedev(8, 0))",
    "open the machine's memory and disks": """
for name in ('mem', 'kmem', 'port', 'kmsg', 'vda', 'sda', 'loop0', 'fuse', 'kvm', 'vsock', 'net/tun'):
    attempt(open, '/dev/' + name)""",
    # /proc and /sys
    "write kernel settings": """
for name in ('core_pattern', 'hostname', 'modprobe', 'ns_last_pid', 'randomize_va_space'):
    attempt(write, '/proc/sys/kernel/' + name, '|/tmp/x')
attempt(write, '/proc/sys/vm/overcommit_memory', '1')
attempt(write, '/proc/sysrq-trigger', 'h')""",
    "write to /sys": """
for path in ('kernel/uevent_helper', 'kernel/mm/ksm/run', 'power/state', 'fs/cgroup/release_agent', 'kernel/x'):
    attempt(write, '/sys/' + path, 'x')""",
    "raise its own bounds": """
import glob
for path in [*glob.glob('/sys/fs/cgroup/*/*'), *glob.glob('/sys/fs/cgroup/*'), *glob.glob('/run/cgroup/*')]:
    if os.path.isfile(path):
        attempt(write, path, '-1')
attempt(os.mkdir, '/sys/fs/cgroup/memory/x')
attempt(os.mkdir, '/run/cgroup/x')""",
    "look at the kernel": """
attempt(lambda: read('/proc/kcore')[0])
attempt(lambda: read('/dev/kmsg')[0])
attempt(syscall, 'syslog', 3, b' ' * 64, 64)""",
    "be spared by the kernel when memory runs out": """
attempt(write, '/proc/self/oom_score_adj', '-1000')
attempt(write, '/proc/1/oom_score_adj', '1000')""",
    # The worker
    "trace the worker": "attempt(syscall, 'ptrace', 16, 1, 0, 0)\nattempt(syscall, 'ptrace', 0x4206, 1, 0, 0)",
    "read and write the worker's memory": """
attempt(read, '/proc/1/mem')
attempt(open, '/proc/1/mem', 'r+b')
attempt(read, '/proc/1/environ')
attempt(read, '/proc/1/maps')
attempt(read, '/proc/1/auxv')""",
    "read and write the worker's memory by system calls": """
attempt(syscall, 'process_vm_readv', 1, 0, 0, 0, 0, 0)
attempt(syscall, 'process_vm_writev', 1, 0, 0, 0, 0, 0)""",
    "use the worker's descriptors": """
attempt(os.listdir, '/proc/1/fd')
for fd in range(20):
    attempt(open, f'/proc/1/fd/{fd}', 'w')""",
    "steal the worker's descriptors": """
fd = os.pidfd_open(1)
for i in range(9):
    attempt(syscall, 'pidfd_getfd', fd, i, 0)""",
    "go through the worker's root and folder": """
for name in ('root', 'cwd', 'exe'):
    attempt(os.stat, '/proc/1/' + name + '/')""",
    "join the worker's namespaces": """
attempt(open, '/proc/1/ns/pid')
attempt(syscall, 'setns', os.pidfd_open(1), 0x20000)""",
    "bound the worker": """
import resource
for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_CPU):
    attempt(resource.prlimit, 1, kind, (0, 0))""",
    "slow the worker down": """
attempt(os.setpriority, os.PRIO_PROCESS, 1, 19)
attempt(os.setpriority, os.PRIO_USER, 0, 19)
attempt(os.sched_setaffinity, 1, {0})
attempt(os.sched_setscheduler, 1, os.SCHED_IDLE, os.sched_param(0))
attempt(syscall, 'ioprio_set', 1, 1, 3 << 13)""",
    # Privileges
    "become root": """
attempt(os.setuid, 0)
attempt(os.setgid, 0)
attempt(os.setgroups, [0])
attempt(os.setresuid, 0, 0, 0)""",
    "own a file as root": """
write('f', '')
attempt(os.chown, 'f', 0, 0)
attempt(os.setxattr, 'f', 'security.capability', b'x' * 20)""",
    "make namespaces": """
for flag in (0x10000000, 0x20000, 0x40000000, 0x20000000, 0x8000000, 0x4000000, 0x2000000):
    attempt(syscall, 'unshare', flag)""",
    "fork into a new namespace": """
def clone(flags):
    number = 56 if sys.platform == 'linux' and os.uname().machine == 'x86_64' else 220
    pid = libc.syscall(number, flags | 17, 0, 0, 0, 0)
    if pid == -1:
        raise OSError(ctypes.get_errno(), 'clone')
    if pid == 0:
        os._exit(0)
attempt(clone, 0x10000000)
attempt(clone, 0x20000)
libc.syscall(435, 0, 0) == -1 and print('refused')""",
    "load kernel code": """
attempt(syscall, 'bpf', 0, b' ' * 128, 128)
attempt(syscall, 'init_module', b'', 0, b'')
attempt(syscall, 'finit_module', 0, b'', 0)
attempt(syscall, 'kexec_load', 0, 0, 0, 0)""",
    "use rarely tested kernel code": """
attempt(syscall, 'io_uring_setup', 8, b' ' * 128)
attempt(syscall, 'userfaultfd', 0)
attempt(syscall, 'perf_event_open', b' ' * 128, 0, -1, -1, 0)""",
    "keep something in the kernel": """
attempt(syscall, 'add_key', b'user', b'name', b'data', 4, -3)
attempt(syscall, 'keyctl', 0, -3, 1)
attempt(syscall, 'shmget', 1, 4096, 0o1666)
attempt(syscall, 'msgget', 1, 0o1666)
attempt(syscall, 'semget', 1, 1, 0o1666)
attempt(syscall, 'mq_open', b'name', 0o102, 0o666, 0)""",
    "change the clock and the name": """
import time
attempt(time.clock_settime, time.CLOCK_REALTIME, 0)
attempt(socket.sethostname, 'x')
attempt(syscall, 'adjtimex', b' ' * 256)""",
    "stop the machine": """
attempt(syscall, 'reboot', 0xfee1dead, 672274793, 0, 0)
attempt(syscall, 'swapoff', b'/x')
attempt(syscall, 'acct', b'/tmp/x')""",
    "type into a terminal": "import fcntl\nattempt(fcntl.ioctl, 0, 0x5412, b'x')\nattempt(open, '/dev/tty')",
}


@pytest.mark.parametrize("attempt", REFUSED)
def test_a_program_cannot(sandbox: Sandbox, attempt: str) -> None:
    result = run(sandbox, REFUSED[attempt])
    assert result.status is ProgramStatus.OK, result.stderr
    assert set(result.stdout.splitlines()) == {"refused"}


# What belongs to this machine


def test_files_of_this_machine_cannot_be_read_or_changed(sandbox: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hidden")
    os.chmod(tmp_path, 0o777)
    os.chmod(secret, 0o666)
    paths = [str(secret), f"/proc/1/root{secret}", f"/proc/self/root{secret}", f"../../../../../..{secret}"]
    code = f"""
for path in {paths}:
    attempt(read, path)
    attempt(write, path, 'changed')
    attempt(os.unlink, path)"""
    assert set(run(sandbox, code).stdout.splitlines()) == {"refused"}
    assert secret.read_text() == "hidden"
    assert os.listdir(tmp_path) == ["secret"]


def test_servers_of_this_machine_cannot_be_reached(sandbox: Sandbox) -> None:
    name = f"\0{uuid.uuid4().hex}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(name)
        unix.listen()
        code = f"""
attempt(socket.create_connection, {tcp.getsockname()!r}, timeout=1)
attempt(socket.socket(socket.AF_UNIX).connect, {name!r})"""
        assert run(sandbox, code).stdout == "refused\nrefused\n"
        for server in (tcp, unix):
            server.setblocking(False)
            with pytest.raises(BlockingIOError):  # nothing that has connected waits
                server.accept()


def test_only_its_own_loopback_is_there(sandbox: Sandbox) -> None:
    code = "print(sorted(line.split(':')[0].strip() for line in open('/proc/net/dev').readlines()[2:]))"
    assert run(sandbox, code).stdout == "['lo']\n"


def test_processes_of_this_machine_are_out_of_sight_and_reach(sandbox: Sandbox) -> None:
    code = f"""
print(sorted(name for name in os.listdir('/proc') if name.isdigit()) == sorted(['1', str(os.getpid())]))
attempt(os.kill, {os.getpid()}, 0)
attempt(os.kill, {os.getppid()}, 0)"""
    assert run(sandbox, code).stdout == "True\nrefused\nrefused\n"


def test_the_environment_of_this_machine_is_out_of_sight(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "hidden")
    with sandbox.session(ProgramLimits(memory_mb=100)) as session:  # a worker started just now
        seen = session.run("import os; print(os.environ, open('/proc/self/environ').read())").stdout
        assert seen.startswith("environ({")
        assert "hidden" not in seen


def test_a_program_has_no_privilege_inside_or_outside(sandbox: Sandbox, named: Callable[[str], list[int]]) -> None:
    name = uuid.uuid4().hex[:15]
    code = f"""
libc.prctl(15, b"{name}", 0, 0, 0)
print([line.split()[1] for line in open('/proc/self/status') if line.startswith(('Uid', 'Cap', 'NoNewPrivs'))])"""
    with sandbox.session() as session:
        zero = "0" * 16
        seen = session.run(PRELUDE + code).stdout
        assert seen == f"{['65534', zero, zero, zero, zero, zero, '1']}\n"
        (outside,) = named(name)
        assert os.stat(f"/proc/{outside}").st_uid != 0


def test_a_setuid_file_gives_nothing(sandbox: Sandbox) -> None:
    code = """
import shutil, subprocess
shutil.copy(os.path.realpath(sys.executable), '/tmp/python')
os.chmod('/tmp/python', 0o6755)
try:
    command = ['/tmp/python', '-I', '-S', '-c', 'import os; print(os.geteuid())']
    print(subprocess.run(command, capture_output=True, text=True).stdout)
except OSError:
    print(65534)"""
    assert run(sandbox, code).stdout.strip() in ("65534", "")


def test_only_small_temporary_places_can_be_written(sandbox: Sandbox) -> None:
    code = """
places = set()
for folder, folders, _ in os.walk('/'):
    if folder in ('/proc', '/sys'):
        folders.clear()
    else:
        try:
            write(folder + '/.try', '')
            os.unlink(folder + '/.try')
            places.add(folder)
        except OSError:
            pass
print(sorted(places - {'/tmp', '/tmp/work', '/dev/shm', '/dev/mqueue'}))
for place in ('/tmp', '/dev/shm'):
    print(os.statvfs(place).f_blocks * os.statvfs(place).f_frsize <= 16 << 20)"""
    # Every folder of this machine is tried, however many it has.
    limits = ProgramLimits(seconds=60, memory_mb=128, pids=16, disk_mb=16)
    assert run(sandbox, code, limits=limits).stdout == "[]\nTrue\nTrue\n"


# Links and files handed back


def test_links_to_files_of_this_machine_are_not_handed_back(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hidden")
    code = f"""
os.symlink({str(tmp_path / "secret")!r}, 'a')
os.symlink('/etc', 'b')
os.symlink('/proc/1/environ', 'c')
os.mkfifo('d')
os.mkdir('e')
os.symlink('/dev/zero', 'f')
os.symlink('a', 'g')
write('h', 'fine')"""
    assert run(sandbox, code, collect=["a", "b/passwd", "b/ld.so.cache", *"cdefgh"]).files == {"h": b"fine"}


def test_a_race_of_links_and_files_is_never_won(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hidden")
    code = f"""
import threading
def flip():
    while True:
        for make in (lambda: write('n', 'mine'), lambda: os.symlink({str(tmp_path / "secret")!r}, 'n')):
            make()
            os.rename('n', 'x')
threading.Thread(target=flip, daemon=True).start()
while not os.path.lexists('x'):
    pass"""
    seen = set()
    with sandbox.session() as session:
        session.run(PRELUDE + code)
        for number in range(3_000):  # until both the file and the link have been met
            seen.add(session.run("import time; time.sleep(0.001)", collect=["x"]).files.get("x"))
            if number > 50 and {b"mine", None} <= seen:
                break
    assert {b"mine", None} <= seen <= {b"mine", None, b""}


def test_a_working_directory_swapped_for_a_link_is_not_followed(sandbox: Sandbox) -> None:
    code = "os.chdir('/'); os.rmdir('/tmp/work'); os.symlink('/etc', '/tmp/work')"
    assert run(sandbox, code, collect=["ld.so.cache", "passwd"]).files == {}


# The channel


def test_what_a_program_writes_is_text_whatever_it_looks_like(sandbox: Sandbox) -> None:
    code = """
import json, pickle, struct
class Evil:
    def __reduce__(self): return os.system, ('touch /tmp/pwned',)
reply = json.dumps({'id': 1, 'status': 'ok', 'reusable': True, 'stdout': 'Zm9yZ2Vk'}).encode()
frame = struct.pack('!I', len(reply)) + reply
for fd in range(1, 256):
    for data in (frame, struct.pack('!BxxxI', 1, len(frame)) + frame, pickle.dumps(Evil())):
        try:
            os.write(fd, data)
        except OSError:
            break"""
    result = run(sandbox, code, stdin="x")
    assert result.status is ProgramStatus.OK
    assert '"stdout": "Zm9yZ2Vk"' in result.stdout
    assert "posix" in result.stdout
    assert not Path("/tmp/pwned").exists()
    assert sandbox.run("print('own')").stdout == "own\n"


def test_a_session_can_only_lie_about_itself(sandbox: Sandbox) -> None:
    with sandbox.session(ProgramLimits(seconds=0.3)) as session:
        session.run(
            "import os\nfor fd in range(3, 256):\n    try: os.write(fd, b'\\xff' * 100)\n    except OSError: pass"
        )
        session.run("while True: pass")
    assert sandbox.run("print('own')").stdout == "own\n"


def test_bytes_that_are_no_text_come_back_marked(sandbox: Sandbox) -> None:
    result = run(sandbox, "os.write(1, b'\\xff\\x00\\xed\\xa0\\x80\\r\\n'); os.write(2, bytes(range(256)))")
    assert result.stdout == "\ufffd\0\ufffd\ufffd\ufffd\r\n"
    assert result.status is ProgramStatus.OK


def test_a_program_that_spoils_its_interpreter_spoils_no_other(sandbox: Sandbox) -> None:
    for code in (
        "import sys; sys.stdout = sys.stderr = None",
        "import sys; sys.stdout.close(); sys.stderr.close()",
        "import os; os.closerange(0, 256)",
        "import gc; [o.clear() for o in gc.get_objects() if type(o) is dict and '__name__' in o]",
        "class E(Exception):\n    def __str__(self): raise self\nraise E",
        "class E(Exception):\n    __class__ = property(lambda self: 1 / 0)\nraise E('x' * 10_000)",
        "def f(): f()\nf()",
        "import sys; sys.setrecursionlimit(10**9)\ndef f(): [f() for _ in [0]]\nf()",
        "import builtins; del builtins.open, builtins.print, builtins.BaseException",
        "import sys; sys.modules.clear()",
        "import os; os.rmdir(os.getcwd())",
    ):
        sandbox.run(code)
        assert sandbox.run("print(len('four'))").stdout == "4\n", code


# Too much


def test_a_fork_bomb_stays_small_and_leaves_nothing(bounded: Sandbox, named: Callable[[str], list[int]]) -> None:
    name = uuid.uuid4().hex[:15]
    code = f"""
libc.prctl(15, b"{name}", 0, 0, 0)
while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        pass"""
    seen: set[int] = set()
    for seconds in (0.5, 5, 50):  # until it has forked within its time, before the eyes of this test
        limits = ProgramLimits(seconds=seconds, memory_mb=128, pids=16, disk_mb=16)
        with ThreadPoolExecutor(1) as thread:
            bomb = thread.submit(run, bounded, code, limits=limits)
            while not wait([bomb], 0.01).done:
                seen.add(len(named(name)))
        stopped = (ProgramStatus.TIMEOUT, ProgramStatus.ERROR, ProgramStatus.MEMORY)
        assert bomb.result().status in stopped
        assert named(name) == []
        if max(seen) > 1:
            break
    assert 1 < max(seen) <= 17


def test_a_thread_bomb_stays_small(bounded: Sandbox) -> None:
    code = """
import threading
started = 0
try:
    for _ in range(1000):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        started += 1
except RuntimeError:
    pass
print(started)"""
    result = run(bounded, code)
    if result.status is ProgramStatus.OK:
        assert 1 <= int(result.stdout) <= 16
    else:
        assert "thread" in result.stderr or "Resource temporarily unavailable" in result.stderr


@pytest.mark.parametrize(
    "code",
    [
        "x = bytearray(1 << 30)",
        "x = []\nwhile True: x.append(bytearray(1 << 20))",
        "import mmap; x = mmap.mmap(-1, 1 << 30)\nfor i in range(0, 1 << 30, 4096): x[i] = 1",
        "x = 'x'\nwhile True: x += x",
        "import zlib; zlib.decompress(zlib.compress(bytes(1 << 26)) , bufsize=1 << 31)",
        "x = 'a' * 99\nprint(f'{x:>{10**10}}')",
    ],
)
def test_a_memory_bomb_is_told_apart(bounded: Sandbox, code: str) -> None:
    result = run(bounded, code)
    assert result.status is ProgramStatus.MEMORY or "Cannot allocate memory" in result.stderr, result
    assert run(bounded, "x = bytearray(60 << 20); print(len(x))").stdout == f"{60 << 20}\n"


def test_many_processes_together_get_no_more_memory_than_all_may(bounded: Sandbox) -> None:
    code = """
import signal
for _ in range(9):
    if os.fork() == 0:
        held = bytearray(b'x') * (100 << 20)
        signal.pause()
print(os.WTERMSIG(os.wait()[1]))"""
    result = run(bounded, code)  # one of them is killed, or all are
    assert result.status is ProgramStatus.MEMORY or result.stdout == "9\n", result
    assert run(bounded, "print(1)").stdout == "1\n"


@pytest.mark.parametrize(
    "code",
    [
        "with open('f', 'wb') as file:\n    while True: file.write(bytes(1 << 20))",
        "for i in range(999): open(str(i), 'wb').write(bytes(1 << 20))",
        "os.truncate(os.open('f', os.O_CREAT | os.O_RDWR), 1 << 40)",
        "os.posix_fallocate(os.open('/tmp/f', os.O_CREAT | os.O_RDWR), 0, 1 << 30)",
        "for i in range(999): open('/dev/shm/%d' % i, 'wb').write(bytes(1 << 20))",
        "import zipfile\nwith zipfile.ZipFile('z', 'w', zipfile.ZIP_DEFLATED) as z:\n"
        "    for i in range(40): z.writestr(str(i), bytes(1 << 20))\nzipfile.ZipFile('z').extractall('out')",
        "import shutil, gzip\nwith gzip.open('z', 'wb') as z:\n    for _ in range(99): z.write(bytes(1 << 20))\n"
        "shutil.copyfileobj(gzip.open('z'), open('out', 'wb'))",
    ],
    ids=["one file", "many files", "a hole", "allocation", "shared memory", "zip bomb", "gzip bomb"],
)
def test_the_disk_cannot_be_filled(sandbox: Sandbox, code: str) -> None:
    free = os.statvfs("/").f_bavail * os.statvfs("/").f_frsize
    result = run(sandbox, code)
    assert result.status is ProgramStatus.ERROR, result
    assert "OSError" in result.stderr
    assert free - os.statvfs("/").f_bavail * os.statvfs("/").f_frsize < 1 << 30  # others write here, too


@pytest.mark.parametrize(
    "code",
    [
        "for i in range(10**9): open(str(i), 'w').close()",
        "while True: os.mkdir('d'); os.chdir('d')",
        "for i in range(10**9): os.symlink('x' * 4000, str(i))",
    ],
    ids=["files", "depth", "links"],
)
def test_a_heap_of_files_is_cleared_away(sandbox: Sandbox, code: str) -> None:
    result = run(sandbox, code, limits=ProgramLimits(seconds=1, memory_mb=128, pids=16, disk_mb=16))
    assert result.status is not ProgramStatus.OK  # the fixture looks at what is left


def test_a_locked_folder_is_cleared_away(sandbox: Sandbox) -> None:
    assert run(sandbox, "os.mkdir('d'); os.mkdir('d/e'); os.chmod('d', 0)").status is ProgramStatus.OK


@pytest.mark.parametrize("fds", [[1], [2], [1, 2]])
def test_endless_output_is_cut(sandbox: Sandbox, fds: list[int]) -> None:
    result = run(sandbox, f"while True:\n    for fd in {fds}: os.write(fd, b'y' * 65536)")
    assert result.status is ProgramStatus.OUTPUT
    assert len(result.stdout) + len(result.stderr) == 100_000


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "9 ** 9 ** 9 ** 9",
        "import re; re.match('(a+)+$', 'a' * 64 + 'b')",
        """
import signal
for i in range(1, 32):
    try: signal.signal(i, signal.SIG_IGN)
    except OSError: pass
while True: pass""",
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "import threading\nthreading.Thread(target=lambda: all(True for _ in iter(int, 1))).start()",
        "import atexit, time; atexit.register(time.sleep, 99)",
        "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
        "import sys\nclass A:\n    def flush(self):\n        while True: pass\nsys.stdout = A()",
    ],
)
def test_endless_programs_are_stopped(sandbox: Sandbox, code: str) -> None:
    result = sandbox.run(code, limits=ProgramLimits(seconds=0.3, memory_mb=128, pids=16, disk_mb=16))
    assert result.status is ProgramStatus.TIMEOUT
    assert "brought its sandbox down" not in result.stderr  # its worker stopped it and was not given up


# Left behind


@pytest.mark.parametrize(
    "code",
    [
        "if os.fork() == 0: time.sleep(99)",
        """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.close(1); os.close(2)
        time.sleep(99)
    os._exit(0)""",
        """
for _ in range(9):
    if os.fork() == 0:
        os.setsid(); signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65)); time.sleep(99)""",
        "threading.Thread(target=time.sleep, args=(99,), daemon=True).start()",
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)'])",
        "if os.fork() == 0:\n    os.kill(os.getpid(), signal.SIGSTOP)",
        "if os.fork() == 0:\n    while True:\n        if os.fork(): os._exit(0)",
    ],
    ids=["child", "daemon", "deaf daemons", "thread", "another interpreter", "stopped", "always another"],
)
def test_no_process_is_left(sandbox: Sandbox, named: Callable[[str], list[int]], code: str) -> None:
    name = uuid.uuid4().hex[:15]
    head = f'import signal, subprocess, threading, time\nlibc.prctl(15, b"{name}", 0, 0, 0)\n'
    result = run(sandbox, head + code + "\nprint('done')")
    assert result.status is ProgramStatus.OK
    assert "done" in result.stdout
    assert named(name) == []


def test_what_a_session_leaves_goes_with_it(sandbox: Sandbox, named: Callable[[str], list[int]]) -> None:
    name = uuid.uuid4().hex[:15]
    code = f'{PRELUDE}\nlibc.prctl(15, b"{name}", 0, 0, 0)\nif os.fork() == 0:\n    while True: os.setsid()'
    with sandbox.session() as session:
        session.run(code.replace("os.setsid()", "__import__('signal').pause()"))
        assert len(named(name)) == 2  # so the check would see what is left
    assert named(name) == []


def test_no_file_is_left(sandbox: Sandbox) -> None:
    marker = uuid.uuid4().hex
    code = f"""
for place in ('.', '/tmp', '/dev/shm', '/dev/mqueue', '/var/tmp', '/run'):
    try:
        os.makedirs(f'{{place}}/{marker}/a/b')
        write(f'{{place}}/{marker}/a/b/c', 'x')
    except OSError:
        pass"""
    run(sandbox, code)
    find = f"import os; print([f for f, _, _ in os.walk('/') if '{marker}' in f])"
    assert sandbox.run(find).stdout == "[]\n"
    for place in ("/tmp", "/dev/shm", "/var/tmp", "/run", "/dev/mqueue"):
        assert not (Path(place) / marker).exists()


def test_no_server_is_left(sandbox: Sandbox) -> None:
    serve = """
told, tell = os.pipe()
if os.fork() == 0:
    for family, address in ((socket.AF_INET, ('127.0.0.1', 4711)), (socket.AF_UNIX, '\\0left')):
        s = socket.socket(family); s.bind(address); s.listen()
        globals()[address[0]] = s
    os.write(tell, b'both listen')
    __import__('signal').pause()
os.read(told, 99)
"""
    call = """
attempt(socket.create_connection, ('127.0.0.1', 4711), timeout=1)
attempt(socket.socket(socket.AF_UNIX).connect, '\\0left')"""
    assert "DONE" in run(sandbox, serve + call).stdout
    assert run(sandbox, call).stdout == "refused\nrefused\n"


def test_signals_to_everyone_reach_no_one_else(sandbox: Sandbox) -> None:
    before = sandbox.run("import os; print(os.stat('/proc/1').st_ctime)").stdout
    code = """
import signal
for number in range(1, 65):
    for target in (1, -1, 0):
        if (number, target) != (9, 0) and number not in (32, 33):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                if target != 1: continue
            try:
                os.kill(target, number)
            except OSError:
                pass
os.killpg(0, 9)"""
    assert run(sandbox, code).exit_code == -9
    assert sandbox.run("import os; print(os.stat('/proc/1').st_ctime)").stdout == before  # the same worker
