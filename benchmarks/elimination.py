"""Cost and savings of elimination: time per sample, and the paper's test counts."""

import dataclasses

from benchmarks.cases import Case, whole_chunks
from benchmarks.processes import apart
from benchmarks.report import Section, Sitting, described, typical, useful

CASES = (
    Case("lingape"), Case("lingame"), Case("lazy-tas"), Case("tas", schedule=100),
    Case("lingape", "top-m", 5), Case("tas", "top-m", 5, schedule=100),
)  # fmt: skip
VARIANTS = (
    ("llr", None),
    ("selective", None),
    ("full", None),
    ("selective", "selective"),
    ("full", "full"),
)


def run(sitting: Sitting) -> Section:
    """Time equally long runs that start together, each observed by one stopping rule.

    Every lane eliminates at about the same steps.
    """
    section = Section(
        "Elimination on linear-d20: processor time per sample on one core, "
        "and half-spaces looked at per sample"
    )
    cases = CASES[:1] if sitting.quick else CASES
    for kind in cases:
        if sitting.rows and kind.rule not in sitting.rows:
            continue
        cap = sitting.max_samples or whole_chunks(2 if sitting.quick else 40)
        plain = []
        for stopping, sampling in VARIANTS[:2] if sitting.quick else VARIANTS:
            case = dataclasses.replace(
                kind, stopping=(stopping,), elimination=sampling, runs=64, lanes=64, max_samples=cap
            )

            def measure(case=case):
                return apart(case, sitting.pinned(1 if sitting.quick else 3))

            def row(found, case=case, plain=plain):
                plain.append(typical(found))
                return {
                    "rule": case.rule,
                    "problem": described(case),
                    "stopping": case.stopping[0],
                    "sampling": case.elimination or "none",
                    "us/sample": typical(found),
                    "x LLR": typical(found) / plain[0],
                    "tests/sample stopping": found["tests_per_sample"][0],
                    "for sampling": found["tests_per_sample"][1],
                    "useful/computed": useful(found),
                }

            places = f"{stopping} at stopping, {sampling or 'none'} at sampling"
            section.attempt(f"{kind.rule}, {described(kind)}, {places}", measure, row)
    section.notes.append(
        "64 runs of equal length. In lanes a test that is masked out is computed all the same; "
        "but TaS solves run by run, over what is active (a solve every 100 samples)."
    )
    return section
