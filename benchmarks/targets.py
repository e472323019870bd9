"""Time per useful sample of the paper's rules against the C loop, on one core."""

import dataclasses
import statistics
import tempfile

from benchmarks import anchor
from benchmarks.measure import Case, apart, whole_chunks
from benchmarks.report import Section, Sitting, described, per_sample, to_anchor, typical, useful


@dataclasses.dataclass(frozen=True)
class Target:
    """A rule on a problem, and its target in multiples of the anchor's step time."""

    case: Case
    target: float
    beyond: float | None = None


SIGNS, UNSTRUCTURED = "linear-d20-osi", "unstructured-k40"
TARGETS = {
    "lingape": Target(Case("lingape"), 0.85, 0.6),
    "lingape-top5": Target(Case("lingape", "TopM(5)"), 2.4, 2.0),
    "lingape-signs": Target(Case("lingape", "thresholding", instance=SIGNS), 0.8, 0.5),
    "lingame": Target(Case("lingame"), 5.0, 4.4),
    "lingame-top5": Target(Case("lingame", "TopM(5)"), 8.0, 6.8),
    "fws": Target(Case("fws"), 4.5, 3.0),
    "lazy-tas": Target(Case("lazy-tas"), 1.3, 1.0),
    "oracle": Target(Case("oracle"), 0.7, 0.4),
    "lucb": Target(Case("lucb", instance=UNSTRUCTURED), 0.5, 0.25),
    "k-learner": Target(Case("k-learner", instance=UNSTRUCTURED), 4.0, 2.5),
    "tas-k40": Target(Case("tas", instance=UNSTRUCTURED), 2.5, 0.8),
    "tas-k5": Target(Case("tas", instance="0.5, 0.45, 0.43, 0.4, 0.3"), 0.4, 0.2),
    "tas": Target(Case("tas", runs=200), 30.0, 10.0),
    "tas-top5": Target(Case("tas", "TopM(5)", runs=50), 150.0, 40.0),
}
"""Timed with elimination at stopping and, for rules that support it, at sampling."""
SAMPLES = 100_000
ALONE = {
    name: Target(Case(name, runs=1, delta=(1e-100,), max_samples=SAMPLES), target)
    for name, target in (("lingape", 1.7), ("lazy-tas", 2.0), ("lingame", 10.0), ("fws", 4.5))
}
"""One long run: what the last run of a queue costs. No rule stops at this delta."""
QUICK = ("lingape", "lingame", "lucb")


def reached(ratio: float | None, target: float, stopped: float) -> bool | None:
    """Whether a target is met; None without a C loop or with runs that were cut off."""
    return None if ratio is None or stopped < 1 else ratio <= target


def _ratio(found: dict) -> float | None:
    return statistics.median(to_anchor(found)) if found["anchors"] else None


def run(sitting: Sitting) -> Section:
    """Time a row per rule and problem; without --quick, from an empty compile cache."""
    section = Section(
        "Targets: microseconds of processor time per useful sample on one core, float64, "
        "compile time apart"
    )
    cap = sitting.max_samples or (whole_chunks(12) if sitting.quick else 1_000_000)
    timing = sitting.pinned(1 if sitting.quick else 3, 10 if sitting.quick else 60)
    steps = [] if sitting.quick else [anchor.prototype(sitting.core)]
    for name in sitting.rows or (QUICK if sitting.quick else TARGETS):
        if name not in TARGETS:
            continue
        target = TARGETS[name]
        runs = sitting.runs or (64 if sitting.quick else target.case.runs)
        case = dataclasses.replace(target.case, runs=runs, max_samples=cap)

        def measure(case=case):
            with tempfile.TemporaryDirectory(prefix="jaxelim-bench-") as folder:
                cache = None if sitting.quick else {"JAX_COMPILATION_CACHE_DIR": folder}
                return apart(case, timing, anchor=sitting.anchor, environment=cache)

        def row(found, name=name, target=target, case=case):
            ratio, times = _ratio(found), per_sample(found)
            anchors = [one["us_per_step"] for one in found["anchors"]] or [None]
            return {
                "row": name, "problem": described(case), "us/sample": typical(found),
                "least": min(times), "most": max(times), "useful/computed": useful(found),
                "C before": anchors[0], "C after": anchors[-1], "x C": ratio,
                "target": target.target, "beyond": target.beyond,
                "reached": reached(ratio, target.target, found["stopped"]),
                "compile s": found["first"]["compile_seconds"], "mean tau": found["mean_tau"],
                "stopped": found["stopped"], "errors": found["errors"],
            }  # fmt: skip

        section.attempt(name, measure, row)
    section.notes.append(
        f"{sitting.runs or '1000 (tas 200, tas-top5 50)'} runs, at most {cap} samples each. 'x C': "
        "the median over the calls of time per sample over time per step\nof the C loop, run just "
        "before and just after the call. 'C before', 'C after': before the first, after the last."
    )
    if not sitting.quick:
        steps.append(anchor.prototype(sitting.core))
        took = " and ".join("-" if one is None else f"{one:.3f}" for one in steps)
        section.notes.append(
            f"benchmarks/anchor/lanes_last.py, LinGapE's step alone in plain JAX, took {took} us "
            "before and after;\nwhere the targets were set 0.224, against the C loop's 0.29."
        )
    if cap < 1_000_000:
        section.notes.append("Runs are cut short: targets are meant for whole runs.")
    if sitting.anchor is None:
        section.notes.append("There is no gcc here: no C loop was built, and there is no ratio.")
    if sitting.core is None:
        section.notes.append("No process can be pinned here: times are of one thread on any core.")
    return section


def alone(sitting: Sitting) -> Section:
    """Time one long run of a row per rule: best arm, elimination at stopping and sampling."""
    section = Section(
        "Alone: microseconds of processor time per sample of one run, whole calls on one core, "
        "float64, compile time apart"
    )
    cap = sitting.max_samples or (SAMPLES // 20 if sitting.quick else SAMPLES)
    timing = sitting.pinned(1 if sitting.quick else 5, 10 if sitting.quick else 20)
    for name in sitting.rows or (("lingape",) if sitting.quick else ALONE):
        if name not in ALONE:
            continue
        case = dataclasses.replace(ALONE[name].case, max_samples=cap)

        def row(found, name=name, case=case):
            ratio, target = _ratio(found), ALONE[name].target
            anchors = [one["us_per_step"] for one in found["anchors"]]
            return {
                "row": name, "problem": described(case), "us/sample": typical(found),
                "C": statistics.median(anchors) if anchors else None, "x C": ratio,
                "target": target, "reached": reached(ratio, target, float(cap == SAMPLES)),
                "compile s": found["first"]["compile_seconds"],
            }  # fmt: skip

        def measure(case=case):
            return apart(case, timing, anchor=sitting.anchor)

        section.attempt(name, measure, row)
    section.notes.append(
        f"One run of {cap} samples, on linear-d20. A call includes what does not depend on the "
        "length of a run: the first chunk in 16 lanes, and the host's part."
    )
    return section
