"""The system calls that no program in a sandbox needs: a seccomp filter, assembled here, installed by the worker.

The worker puts itself and so every program under it, whatever the backend, on top of what the backend does. It
closes what namespaces leave open: vsock sockets (which reach past the network namespace), kernel keyrings and System V
objects (which outlive the program), ptrace, new namespaces, io_uring, and signals or priorities for other processes.
A call that it refuses fails with EPERM; nothing is killed. Other machines than those in `MACHINES` run without it.
"""

from __future__ import annotations

import struct

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

REFUSED: dict[str, tuple[int, int]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "mount": (165, 40),
    "umount2": (166, 39),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "setns": (308, 268),
    "unshare": (272, 97),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "syslog": (103, 116),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "vhangup": (153, 58),
    "fanotify_init": (300, 262),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "semctl": (66, 191),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}
"""System calls refused whatever their arguments: name, number on x86-64, number on AArch64."""

ONLY_ITSELF: dict[str, tuple[tuple[int, ...], tuple[int, int]]] = {
    "prlimit64": ((0,), (302, 261)),
    "setpriority": ((0, 1), (141, 140)),
    "ioprio_set": ((1,), (251, 30)),
    "sched_setaffinity": ((0,), (203, 122)),
    "sched_setscheduler": ((0,), (144, 119)),
    "sched_setparam": ((0,), (142, 118)),
    "sched_setattr": ((0,), (314, 274)),
}
"""System calls refused unless these arguments are 0, which says: the caller itself."""

_CLONE, _CLONE3, _KILL_CALL, _SOCKET, _SOCKETPAIR, _IOCTL = (56, 220), 435, (62, 129), (41, 198), (53, 199), (16, 29)


def program(machine: str, *, shared: bool = False) -> bytes:
    """Return the filter for a machine as the kernel takes it: an array of ``struct sock_filter``.

    Args:
        machine: One of `MACHINES`.
        shared: Processes of others are in sight, so that a signal to all must not be.
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
    for arguments, pair in ONLY_ITSELF.values():
        checks = []
        for i in arguments:
            checks += [_load(_ARGUMENTS + 8 * i), (_EQUAL, 1, 0, 0), _answer(_EPERM)]
        code += _rule(pair[column], checks)
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
