"""Time per sample of every rule on every problem, linear and unstructured."""

import dataclasses

from benchmarks.cases import Case, Timing, whole_chunks
from benchmarks.processes import apart
from benchmarks.report import Section, Sitting, described, useful
from jaxelim import catalogue

INSTANCES = {"linear": "linear-d20", "unstructured": "unstructured-k40"}
PROBLEMS = {"best-arm": None, "top-m": 5, "thresholding": None}
SOLVING = ("tas", "optimistic-tas")
"""Rules that solve for an allocation at every sample: fewer and shorter runs."""


def cases(sitting: Sitting) -> list[Case]:
    """The timed cases: selective elimination, or the rule's own test, at stopping.

    Rules that support it also get a case with elimination at sampling.
    """
    found = []
    for structure, instance in INSTANCES.items():
        for problem, m in PROBLEMS.items():
            for name, rule in catalogue.rules().items():
                if structure not in rule.traits.structures or not rule.traits.defined_for(problem):
                    continue
                if sitting.rows and name not in sitting.rows:
                    continue
                stopping = ("selective",) if "selective" in rule.traits.stopping else ("native",)
                cap = sitting.max_samples or (
                    100 if name in SOLVING else whole_chunks(1 if sitting.quick else 20)
                )
                case = Case(
                    name,
                    problem,
                    m,
                    instance=f"{instance}-osi" if problem == "thresholding" else instance,
                    stopping=stopping,
                    elimination=None,
                    runs=sitting.runs or (16 if sitting.quick else 64 if name in SOLVING else 500),
                    max_samples=cap,
                )
                found.append(case)
                if rule.traits.elimination:
                    found.append(dataclasses.replace(case, elimination="selective"))
    return found


def run(sitting: Sitting) -> Section:
    """Time a row per rule, problem, structure and place of elimination.

    Each is one call less its compile time.
    """
    section = Section("Rules: microseconds of processor time per useful sample on one core")
    for case in cases(sitting):

        def measure(case=case):
            return apart(case, Timing(0, sitting.core))

        def row(found, case=case):
            first = found["first"]
            seconds = first["cpu_seconds"] - first["compile_processor_seconds"]
            return {
                "rule": case.rule,
                "problem": described(case),
                "instance": case.instance,
                "stopping": case.stopping[0],
                "sampling": case.elimination or "none",
                "samples a run": f"at most {case.max_samples}",
                "us/sample": 1e6 * seconds / first["samples_drawn"],
                "useful/computed": useful(found),
                "seconds": seconds,
                "compile s": first["compile_seconds"],
                "mean tau": found["mean_tau"],
                "stopped": found["stopped"],
                "errors": found["errors"],
            }

        place = "at stopping" if case.elimination is None else "at both"
        section.attempt(f"{case.rule}, {described(case)}, {case.instance}, {place}", measure, row)
    section.notes.append("Most runs are cut off, so that few lanes idle.")
    return section
