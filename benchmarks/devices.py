"""One device against two on as many cores, in wall time and in processor time."""

import statistics
import subprocess
import sys

from benchmarks.cases import Case, Timing, whole_chunks
from benchmarks.processes import apart
from benchmarks.report import Section, Sitting, typical, useful

WALL, PROCESSOR = 1.7, 1.18
"""Asked of two devices against one: samples a second, and processor time per sample."""
IDLE = 1.9
"""Cores that two processes must get for the machine to count as idle."""
SPIN = """
import time
wall, cpu = time.perf_counter(), time.process_time()
while time.perf_counter() < wall + 1.0:
    sum(range(1000))
print((time.process_time() - cpu) / (time.perf_counter() - wall))
"""


def free_cores() -> float:
    """Cores' worth of processor time that two busy processes get."""
    both = [
        subprocess.Popen([sys.executable, "-c", SPIN], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    return sum(float(one.communicate()[0]) for one in both)


def run(sitting: Sitting) -> Section:
    """Time the same runs on one device and on two, unpinned.

    The two alternate, since the speed of a shared machine varies.
    """
    section = Section("Devices: LinGapE on linear-d20; nothing is pinned")
    if sitting.cores < 2:
        section.notes.append("There is only one core here: two devices would take turns on it.")
        return section
    runs = sitting.runs or (128 if sitting.quick else 1000)
    cap = sitting.max_samples or (whole_chunks(20) if sitting.quick else 1_000_000)
    repeats = sitting.repeats or (1 if sitting.quick else 5)
    pairs, free = [], []
    for pair in range(1, repeats + 1):
        found = {}
        for devices in (1, 2):
            case = Case("lingape", runs=runs, max_samples=cap, devices=devices)

            def measure(case=case, devices=devices):
                before = free_cores()
                once = apart(case, Timing(1), devices=devices)
                return {**once, "free_cores": [before, free_cores()]}

            def row(found, pair=pair, devices=devices):
                return {
                    "pair": pair,
                    "devices": devices,
                    "wall us/sample": typical(found, "wall"),
                    "processor us/sample": typical(found),
                    "cores kept busy": typical(found) / typical(found, "wall"),
                    "cores free": min(found["free_cores"]),
                    "useful/computed": useful(found),
                    "M samples/s": 1 / typical(found, "wall"),
                }

            found[devices] = section.attempt(f"pair {pair}, {devices} of 2 devices", measure, row)
        if None not in found.values():
            pairs.append(
                (
                    typical(found[1], "wall") / typical(found[2], "wall"),
                    typical(found[2]) / typical(found[1]),
                )
            )
            free += found[1]["free_cores"] + found[2]["free_cores"]
    if pairs:
        speed, cost = (_middle(ratios) for ratios in zip(*pairs, strict=True))
        section.notes += [
            "Two devices against one, measured in turn; the median pair (the least and the most):",
            f"{speed} times the samples a second (asked for on idle cores: at least {WALL}),",
            f"{cost} times the processor time per sample "
            f"(asked for on busy ones: at most {PROCESSOR}).",
        ]
        if min(free) < IDLE:
            section.notes.append(
                f"BUSY MACHINE: two plain processes got {min(free):.2f} cores. "
                "Go by the processor time."
            )
    section.notes.append(
        "'cores free': what two processes that only count get, before and after; the lesser."
    )
    return section


def _middle(ratios: tuple[float, ...]) -> str:
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
