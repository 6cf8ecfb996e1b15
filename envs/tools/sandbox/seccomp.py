"""The system calls that no program in a sandbox needs: a seccomp filter, assembled here, installed by the worker.

The worker puts itself and so every program under it, whatever the backend, on top of what the backend does. It
closes what namespaces leave open: vsock sockets (which reach past the network namespace), kernel keyrings and System V
objects (which outlive the program), ptrace, new namespaces, io_uring, and signals or priorities for other processes.
A call that it refuses fails with EPERM; nothing is killed. Other machines than those in `MACHINES` run without it.
"""

from __future__ import annotations

import struct
from pathlib import Path

from toolorchestra.toolscale.common.yaml_reader import read_yaml

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""Machines that the filter is made for, and how the kernel names them in seccomp_data.arch."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_KILL, _ALLOW, _EPERM, _ENOSYS = 0x80000000, 0x7FFF0000, 0x00050001, 0x00050026
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in seccomp_data
_X32 = 0x40000000  # x86-64 takes the same calls under other numbers too
_NEW_NAMESPACES = 0x7E020080  # CLONE_NEW* flags
_SOCKETS = (1, 2, 10)  # AF_UNIX, AF_INET, AF_INET6; the network namespace holds these in
_EVERYONE = 0xFFFFFFFF  # kill(-1)
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: typing into a terminal

_Instruction = tuple[int, int, int, int]

_TABLES = read_yaml(Path(__file__).with_name("seccomp.yaml"))
REFUSED: dict[str, list[int]] = _TABLES["refused"]
"""System calls refused whatever their arguments: name, number on x86-64, number on AArch64."""
ONLY_ITSELF: dict[str, list[list[int]]] = _TABLES["only_itself"]
"""System calls refused unless the arguments at these positions are 0, which says: the caller itself."""

_CLONE, _CLONE3, _KILL_CALL, _SOCKET, _SOCKETPAIR, _IOCTL = (56, 220), 435, (62, 129), (41, 198), (53, 199), (16, 29)


def program(machine: str, *, shared: bool = False) -> bytes:
    """Return the filter for one of `MACHINES` as the kernel takes it: an array of ``struct sock_filter``.

    With `shared`, programs can see processes of others, and the filter also refuses signals to all processes.
    """
    column = list(MACHINES).index(machine)
    code = [_load(_ARCH), (_EQUAL, 1, 0, MACHINES[machine]), _answer(_KILL), _load(_NUMBER)]
    if machine == "x86_64":
        code += [(_AT_LEAST, 0, 1, _X32), _answer(_EPERM)]
    for numbers in REFUSED.values():
        code += _rule(numbers[column], [_answer(_EPERM)])
    code += _rule(_CLONE3, [_answer(_ENOSYS)])  # its flags lie in memory; the C library then asks for clone
    code += _rule(_CLONE[column], [_load(_ARGUMENTS), (_ANY_BIT, 0, 1, _NEW_NAMESPACES), _answer(_EPERM)])
    if shared:
        code += _rule(_KILL_CALL[column], [_load(_ARGUMENTS), (_EQUAL, 0, 1, _EVERYONE), _answer(_EPERM)])
    for number in (_SOCKET[column], _SOCKETPAIR[column]):
        known = [(_EQUAL, len(_SOCKETS) - i, 0, family) for i, family in enumerate(_SOCKETS)]
        code += _rule(number, [_load(_ARGUMENTS), *known, _answer(_EPERM)])
    typing = [part for request in _TERMINAL_INPUT for part in ((_EQUAL, 0, 1, request), _answer(_EPERM))]
    code += _rule(_IOCTL[column], [_load(_ARGUMENTS + 8), *typing])
    for arguments, numbers in ONLY_ITSELF.values():
        checks = []
        for i in arguments:
            checks += [_load(_ARGUMENTS + 8 * i), (_EQUAL, 1, 0, 0), _answer(_EPERM)]
        code += _rule(numbers[column], checks)
    code.append(_answer(_ALLOW))
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)


def _load(offset: int) -> _Instruction:
    return (_LOAD, 0, 0, offset)  # the low half of an argument: all that the kernel reads of an int, too


def _answer(action: int) -> _Instruction:
    return (_RETURN, 0, 0, action)


def _rule(number: int, then: list[_Instruction]) -> list[_Instruction]:
    """Run `then` for one system call; if that does not refuse it, it is allowed."""
    block = [*then, _answer(_ALLOW)] if then[-1] != _answer(_EPERM) or len(then) > 1 else then
    return [(_EQUAL, 0, len(block), number), *block]
