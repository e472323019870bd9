"""Free memory, and the refusal of calls that would hold more."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxelim.errors import MemoryLimitError, gigabytes

SMALL = 2**28
"""Below so many bytes free memory is not read."""


class Part(NamedTuple):
    """A part of the memory that a call would hold."""

    argument: str  # the argument that determines it
    value: Any  # of that argument
    purpose: str  # what it is for, in words
    host: int  # bytes
    device: int = 0  # bytes, on all devices together


def check(parts: Sequence[Part], devices: Sequence[Any] = ()) -> None:
    """Refuse a call whose parts do not fit into free memory.

    Args:
        parts: all that the call would hold.
        devices: the JAX devices of the call; CPU devices share the host's memory.

    Raises:
        MemoryLimitError: they do not fit; it names the argument with the largest share.
    """
    shared = all(device.platform == "cpu" for device in devices)
    on_host = [part.host + (part.device if shared else 0) for part in parts]
    if sum(on_host) > SMALL:
        _check(parts, on_host, available())
    on_device = [-(-part.device // max(len(devices), 1)) for part in parts]
    if not shared and sum(on_device) > SMALL:
        _check(parts, on_device, available_on(devices))


def _check(parts: Sequence[Part], sizes: Sequence[int], free: int | None) -> None:
    needed = sum(sizes)
    if free is None or needed <= free:
        return
    blamed: Counter[str] = Counter()
    for part, size in zip(parts, sizes, strict=True):
        blamed[part.argument] += size
    argument, most = blamed.most_common(1)[0]
    own = [
        (size, part) for part, size in zip(parts, sizes, strict=True) if part.argument == argument
    ]
    largest = max(own, key=lambda sized: sized[0])[1]
    note = f"the call would hold {gigabytes(needed)}, {gigabytes(most)} of it for {largest.purpose}"
    raise MemoryLimitError(argument, largest.value, needed, free, note)


def of_a_run(arms: int, width: int, observers: int) -> int:
    """Bytes of a run's outcome.

    Per observer: samples, stopped, answer [width], pulls [arms] and two
    counts of tests.
    """
    return 4 + observers * (21 + width + 4 * arms)


def available(root: Path = Path("/")) -> int | None:
    """Bytes that this process may still allocate; None where the system does not report them.

    The smaller of the system's available memory and the rest of the process's control
    groups (v1 and v2). Their page cache counts as free.
    """
    sizes = [_of_the_system(root), *_of_control_groups(root)]
    known = [size for size in sizes if size is not None]
    return max(min(known), 0) if known else None


def available_on(devices: Sequence[Any]) -> int | None:
    """Free bytes on the fullest device; None where devices do not report them."""
    free = []
    for device in devices:
        stats = device.memory_stats() or {}
        if "bytes_limit" in stats:
            free.append(stats["bytes_limit"] - stats.get("bytes_in_use", 0))
    return min(free) if free else None


def _of_the_system(root: Path) -> int | None:
    text = _read(root / "proc/meminfo")
    for line in text.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _of_control_groups(root: Path) -> list[int]:
    """Free bytes of each control group of this process, and of the groups above them."""
    free = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            top = root / "sys/fs/cgroup"
            names = "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            top = root / "sys/fs/cgroup/memory"
            names = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
        else:
            continue
        group = top / path.strip("/")
        while True:
            free += _left(group, *names)
            if group == top:
                break
            group = group.parent
    return free


def _left(group: Path, limit: str, usage: str, cache: str) -> list[int]:
    """Free bytes of one group; empty where it has no limit or is not visible."""
    most, used = _read(group / limit).strip(), _read(group / usage).strip()
    if not most.isdigit() or not used.isdigit() or int(most) >= 2**60:
        return []
    reclaimable = 0
    for line in _read(group / "memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if name == cache and value.strip().isdigit():
            reclaimable = int(value)
    return [int(most) - int(used) + reclaimable]


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""
