"""The seccomp filter, run by a few lines that do what the kernel does."""

from __future__ import annotations

import struct

import pytest

from toolorchestra.envs.tools.sandbox import seccomp

ALLOW, EPERM, ENOSYS, KILL = 0x7FFF0000, 0x50001, 0x50026, 0x80000000


def verdict(machine: str, number: int, *arguments: int, arch: int | None = None, shared: bool = False) -> int:
    """Run the filter on one system call."""
    arguments = (*arguments, *[0] * (6 - len(arguments)))
    masked = [argument & 0xFFFFFFFFFFFFFFFF for argument in arguments]
    data = struct.pack("<iIQ6Q", number, arch or seccomp.MACHINES[machine], 0, *masked)
    code = list(struct.iter_unpack("<HBBI", seccomp.program(machine, shared=shared)))
    at = accumulator = 0
    while True:
        operation, yes, no, k = code[at]
        at += 1
        if operation == 0x06:
            return int(k)
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, k)
        else:
            test = {0x15: accumulator == k, 0x35: accumulator >= k, 0x45: bool(accumulator & k)}[operation]
            at += yes if test else no


@pytest.mark.parametrize("machine", seccomp.MACHINES)
def test_every_refused_call_is_refused_and_others_are_not(machine: str) -> None:
    column = list(seccomp.MACHINES).index(machine)
    refused = {numbers[column] for numbers in seccomp.REFUSED.values()}
    assert len(refused) == len(seccomp.REFUSED)
    for number in range(600):
        if number == 435:
            assert verdict(machine, number) == ENOSYS
        elif number != (41, 198)[column] and number != (53, 199)[column]:  # sockets of family 0
            assert verdict(machine, number) == (EPERM if number in refused else ALLOW)


@pytest.mark.parametrize("machine", seccomp.MACHINES)
def test_arguments_decide(machine: str) -> None:
    column = list(seccomp.MACHINES).index(machine)
    socket, clone, kill, ioctl = ((41, 198), (56, 220), (62, 129), (16, 29))
    for family in range(50):
        assert verdict(machine, socket[column], family) == (ALLOW if family in (1, 2, 10) else EPERM)
    assert verdict(machine, clone[column], 0x1200011) == ALLOW  # what fork asks for
    assert verdict(machine, clone[column], 0x3D0F00) == ALLOW  # what a thread asks for
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000, 0x80):
        assert verdict(machine, clone[column], flag | 17) == EPERM
    assert verdict(machine, kill[column], -1, 9) == ALLOW  # all of them are the program's own
    assert verdict(machine, kill[column], -1, 9, shared=True) == EPERM
    assert verdict(machine, kill[column], 5, 9, shared=True) == ALLOW
    assert verdict(machine, ioctl[column], 0, 0x5412) == EPERM
    assert verdict(machine, ioctl[column], 0, 0x5401) == ALLOW
    for arguments, numbers in seccomp.ONLY_ITSELF.values():
        assert verdict(machine, numbers[column]) == ALLOW
        for argument in arguments:
            assert verdict(machine, numbers[column], *[int(i == argument) for i in range(3)]) == EPERM


def test_the_table_has_what_namespaces_leave_open() -> None:
    assert len(seccomp.REFUSED) == 64
    assert seccomp.REFUSED["ptrace"] == [101, 117]
    assert seccomp.REFUSED["keyctl"] == [250, 219]
    assert {"bpf", "io_uring_setup", "mount", "setns", "shmget", "unshare"} < seccomp.REFUSED.keys()
    assert seccomp.ONLY_ITSELF["setpriority"] == [[0, 1], [141, 140]]


def test_calls_by_another_convention_do_not_pass() -> None:
    assert verdict("x86_64", 11, arch=0x40000003) == KILL  # 32-bit: the same numbers mean other calls
    assert verdict("x86_64", 0x40000000 + 101) == EPERM  # x32
