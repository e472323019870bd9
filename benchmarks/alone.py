"""Time per sample of one long run alone: what the last run of a queue costs."""

import dataclasses
import statistics

from benchmarks.cases import Case
from benchmarks.processes import apart
from benchmarks.report import Section, Sitting, described, to_anchor, typical
from benchmarks.targets import reached

SAMPLES = 100_000
TARGETS = {"lingape": 1.7, "lazy-tas": 2.0, "lingame": 10.0, "fws": 4.5}
"""Rules, and their targets in multiples of the anchor's step time."""
CASE = Case("", runs=1, delta=(1e-100,), max_samples=SAMPLES)
"""Delta is so small that the run goes on to its cap."""


def run(sitting: Sitting) -> Section:
    """Time a row per rule: best arm, elimination at stopping and sampling."""
    section = Section(
        "Alone: microseconds of processor time per sample of one run, whole calls on one core, "
        "float64, compile time apart"
    )
    cap = sitting.max_samples or (SAMPLES // 20 if sitting.quick else SAMPLES)
    for name in sitting.rows or (("lingape",) if sitting.quick else TARGETS):
        if name not in TARGETS:
            continue
        case = dataclasses.replace(CASE, rule=name, max_samples=cap)

        def measure(case=case):
            timing = sitting.pinned(1 if sitting.quick else 5, 10 if sitting.quick else 20)
            return apart(case, timing, anchor=sitting.anchor)

        def row(found, name=name, case=case):
            ratio = statistics.median(to_anchor(found)) if found["anchors"] else None
            anchors = [one["us_per_step"] for one in found["anchors"]]
            whole = 1.0 if cap == SAMPLES else 0.0
            return {
                "row": name,
                "problem": described(case),
                "us/sample": typical(found),
                "C": statistics.median(anchors) if anchors else None,
                "x C": ratio,
                "target": TARGETS[name],
                "reached": reached(ratio, TARGETS[name], whole),
                "compile s": found["first"]["compile_seconds"],
            }

        section.attempt(name, measure, row)
    section.notes.append(
        f"One run of {cap} samples, on linear-d20. A call includes what does not depend on the "
        "length of a run: the first chunk in 16 lanes, and the host's part."
    )
    return section
