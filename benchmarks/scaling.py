"""LinGapE's time per sample and memory against lanes, runs, K, d, m and deltas."""

import dataclasses
from collections.abc import Iterator

from benchmarks.cases import Case, whole_chunks
from benchmarks.processes import apart
from benchmarks.report import Section, Sitting, typical, useful

LINGAPE = Case("lingape")


def points(quick: bool, cap: int | None = None) -> Iterator[tuple[str, int, Case]]:
    """Yield (axis, size, case); runs are cut off after as many chunks or at the cap."""

    def case(arms: int = 50, **more) -> Case:
        return dataclasses.replace(
            LINGAPE, max_samples=cap or whole_chunks(2 if quick else 8, arms), **more
        )

    def pick(few: tuple, many: tuple) -> tuple:
        return few if quick else many

    for lanes in pick((16, 64), (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)):
        yield "lanes", lanes, case(lanes=lanes, runs=max(128 if quick else 512, 2 * lanes))
    for runs in pick((), (100, 300, 1000, 3000, 10_000)):
        yield "runs", runs, case(runs=runs)
    for K in pick((50, 200), (10, 20, 50, 100, 200, 500, 1000, 2000)):
        yield "K", K, case(K, instance=f"{K} x 20", runs=128, lanes=64)
    for d in pick((), (2, 5, 10, 20, 50, 100)):
        yield "d", d, case(instance=f"50 x {d}", runs=256, lanes=64)
    for m in pick((), (1, 2, 5, 10, 20)):
        yield "m", m, case(problem="top-m", m=m, instance="50 x 20", runs=256, lanes=64)
    for deltas in pick((), (1, 3, 9)):
        yield (
            "deltas",
            deltas,
            case(delta=tuple(10.0**-i for i in range(1, deltas + 1)), runs=192, lanes=64),
        )


def run(sitting: Sitting) -> Section:
    """Time a row per size; rows of K are also compared with K d + d^2."""
    section = Section(
        "Scaling of LinGapE, one size changed at a time: processor time per sample on one core"
    )
    for axis, size, case in points(sitting.quick, sitting.max_samples):

        def measure(case=case):
            return apart(case, sitting.pinned(1 if sitting.quick else 3))

        def row(found, axis=axis, size=size, case=case):
            return {
                "axis": axis,
                "size": size,
                "us/sample": typical(found),
                "over K d + d^2": None,  # filled in below, once K = 50 is measured
                "useful/computed": useful(found),
                "design": found["plan"]["design"],
                "lanes": found["plan"]["lanes"],
                "runs": case.runs * len(case.delta),
                "state B/lane": found["state_bytes_per_lane"],
                "peak MB": found["peak_memory_bytes"] / 1e6,
                "above start MB": (found["peak_memory_bytes"] - found["memory_before_bytes"]) / 1e6,
                "compile s": found["first"]["compile_seconds"],
            }

        section.attempt(f"{axis} = {size}", measure, row)
    cost = {
        row["size"]: row["us/sample"] / (row["size"] * 20 + 20 * 20)
        for row in section.rows
        if row["axis"] == "K"
    }
    for row in section.rows:
        if row["axis"] == "K" and 50 in cost:
            row["over K d + d^2"] = cost[row["size"]] / cost[50]
    section.notes += [
        "Runs are cut short, all after as many chunks. "
        "State: what a lane carries from step to step.",
        "'over K d + d^2': time per sample over that of K = 50, each divided by its K d + d^2 "
        "(1: proportional).",
        "Peak: of the whole process, its compiler included; "
        "above start: less what Python and its libraries take.",
    ]
    if not sitting.quick:
        tail(sitting, section)
    return section


def tail(sitting: Sitting, section: Section) -> None:
    """Time few and many whole runs: the cost of lanes that idle at the end."""
    for rule in ("lingape", "fws"):
        times = {}
        for runs in (100, 1000):
            case = Case(rule, runs=runs)

            def measure(case=case):
                return apart(case, sitting.pinned(1))

            def row(found, rule=rule, runs=runs, times=times):
                times[runs] = typical(found)
                return {
                    "whole runs of": rule,
                    "runs": runs,
                    "us/sample": typical(found),
                    "useful/computed": useful(found),
                    "mean tau": found["mean_tau"],
                }

            section.attempt(f"whole runs of {rule}, {runs}", measure, row)
        if len(times) == 2:
            ratio = times[100] / times[1000]
            section.notes.append(
                f"{rule}: a useful sample at 100 runs takes {ratio:.2f} times the time "
                "of one at 1000."
            )
