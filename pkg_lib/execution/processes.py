"""Processes as the fork server sees them: their state, their children, the time they have spent."""

# ruff: noqa: PTH208 - descriptors, and a start without pathlib
from __future__ import annotations

import os
import time

DISK = 10  # times its limit that a sample may seem to wait for a disk
# For each second of the tests' process, a sample may spend this many on packing values. The tests'
# process itself may spend this many limits.
APART = 3


class Processes:
    """The processes of this machine.

    Attributes:
        before: What a process had spent before the present sample: processor seconds, seconds
            without one.
    """

    def __init__(self) -> None:
        """Open /proc, which may be hidden later."""
        self.proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
        self.before: dict[int, tuple[float, float]] = {}

    def read(self, path: str) -> str:
        """Read a file of /proc.

        Args:
            path: Path below /proc.

        Returns:
            Its text behind the process's name, which a sample chooses and which must not stay in
            this memory. "" if the process has just ended.
        """
        buffer = bytearray(8192)
        try:
            file = os.open(path, os.O_RDONLY, dir_fd=self.proc)
            size = os.readv(file, [buffer])
            os.close(file)
        except OSError:
            return ""
        start = buffer.rfind(b")") + 1
        text = bytes(memoryview(buffer)[start:size]).decode()
        buffer[:] = bytes(len(buffer))
        return text

    def stat(self, pid: int | str) -> list[str]:
        """Return a process's state, its parent and more; nothing if it has ended.

        Args:
            pid: The process's id.
        """
        return self.read(f"{pid}/stat").split()

    def children(self) -> list[int]:
        """Return the ids of this process's children."""
        own = [str(os.getpid())]
        pids = filter(str.isdigit, os.listdir(self.proc))
        return [int(pid) for pid in pids if self.stat(pid)[1:2] == own]

    def spent(self, pid: int) -> tuple[float, float]:
        """Measure what a process has spent since `before`.

        Args:
            pid: The process's id.

        Returns:
            Processor seconds of all its threads, and seconds that its first thread was ready to run
            but had no processor.
        """
        try:
            used = time.clock_gettime(~pid << 3 | 2)  # the clock that clock_getcpuclockid returns
        except OSError:  # it has just ended
            used = 0.0
        schedule = self.read(f"{pid}/schedstat") or "0 0"
        ready = int(schedule.split()[1]) / 1e9
        used_before, ready_before = self.before.get(pid, (0, 0))
        return used - used_before, ready - ready_before

    def remaining(
        self,
        pids: list[int],
        wall: float,
        limit: float,
    ) -> float:
        """Compute the time left, so that a busy machine changes no verdict.

        Processor time counts for processes that run or wait for a page (up to DISK times the limit,
        since a process can pretend to wait). If all processes sleep, wall time counts, without the
        time in which they were ready to run but had no processor. The cost of a sample's calls is
        also charged to the tests' process.

        Args:
            pids: The sample's process and, if there is one, the tests' process.
            wall: Seconds since the start.
            limit: The time limit in seconds.

        Returns:
            Seconds; 0 or less if the time is over.
        """
        if wall < limit:
            return limit - wall
        spent = [self.spent(pid) for pid in pids]
        own = spent[0][0]
        apart = sum(used for used, _ in spent[1:])
        ready = sum(seconds for _, seconds in spent)
        states = [self.stat(pid)[:1] for pid in pids]
        allowed = limit + APART * min(apart, limit)
        if ["R"] not in states and ["D"] not in states:
            return allowed + apart - wall + ready
        left = min(allowed - own, APART * limit + 1 - apart)
        return left if ["R"] in states else min(left, DISK * limit - wall + ready)
