"""The cost of observing nine deltas and two stopping rules on one trajectory."""

from benchmarks.cases import Case, whole_chunks
from benchmarks.processes import apart
from benchmarks.report import Section, Sitting, typical, useful

NINE = tuple(10.0**-i for i in range(1, 10))
ALLOWED = 1.3


def run(sitting: Sitting) -> Section:
    """Time LinGame on best arm, its trajectory observed once and several times."""
    section = Section("Deltas: LinGame on linear-d20, observers of one trajectory")
    runs = sitting.runs or (64 if sitting.quick else 256)
    cap = sitting.max_samples or whole_chunks(2 if sitting.quick else 16)
    variants = [
        (NINE[1:2], ("llr",)),
        (NINE[1:2], ("llr", "selective")),
        (NINE, ("llr",)),
        (NINE, ("llr", "selective")),
    ]
    plans = [
        (deltas, stopping, runs, cap) for deltas, stopping in variants[:: 3 if sitting.quick else 1]
    ]
    if not sitting.quick:
        plans += [(deltas, stopping, 200, 1_000_000) for deltas, stopping in variants[::3]]
    one = {}  # time of a step with one observer, by whether runs are whole
    for deltas, stopping, many, most in plans:
        case = Case(
            "lingame",
            stopping=stopping,
            elimination=None,
            delta=deltas,
            runs=many,
            lanes=64,
            max_samples=most,
        )
        whole = most == 1_000_000

        def measure(case=case, whole=whole):
            return apart(case, sitting.pinned(1 if whole or sitting.quick else 3))

        def row(found, case=case, whole=whole):
            # Per computed step: idle lanes at the end are no cost of the observers.
            step = typical(found) * useful(found)
            if len(case.delta) * len(case.stopping) == 1:
                one[whole] = step
            return {
                "deltas": len(case.delta),
                "stopping": "+".join(case.stopping),
                "runs": case.runs,
                "samples a run": "whole" if whole else str(case.max_samples),
                "us/step": step,
                "us/sample": typical(found),
                "x one": step / one[whole] if whole in one else None,
                "useful/computed": useful(found),
            }

        label = (
            f"{len(deltas)} delta{'s' * (len(deltas) > 1)}, {'+'.join(stopping)}"
            f"{', whole runs' if whole else ''}"
        )
        section.attempt(label, measure, row)
    section.notes.append(
        "'x one': against one delta and LLR in the row of the same length; "
        f"asked for: at most {ALLOWED}."
    )
    return section
