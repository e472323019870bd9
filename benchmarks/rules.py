"""Every sampling rule on a linear and on an unstructured instance: what a sample of each costs."""

from benchmarks.cases import Case, Timing, whole_chunks
from benchmarks.processes import apart
from benchmarks.report import Section, Sitting, useful
from jaxelim import catalogue

INSTANCES = {"linear": "linear-d20", "unstructured": "unstructured-k40"}
SOLVING = ("tas", "optimistic-tas")
"""Rules that solve for an allocation at every sample: their runs are cut off sooner."""


def run(sitting: Sitting) -> Section:
    """Best arm, selective elimination at stopping alone, or the rule's own test; one call each, compile time taken off."""
    section = Section("Rules: microseconds of processor time per useful sample on one core, best arm, elimination at stopping")
    runs = sitting.runs or (16 if sitting.quick else 500)
    for structure, instance in INSTANCES.items():
        for name, rule in catalogue.rules().items():
            if structure not in rule.structures or (sitting.rows and name not in sitting.rows):
                continue
            stopping = ("selective",) if "selective" in rule.stopping else ("native",)
            cap = sitting.max_samples or (100 if name in SOLVING else whole_chunks(1 if sitting.quick else 20))
            case = Case(name, instance=instance, stopping=stopping, elimination=None, runs=runs, max_samples=cap)

            def measure(case=case):
                return apart(case, Timing(0, sitting.core))

            def row(found, case=case):
                first = found["first"]
                seconds = first["cpu_seconds"] - first["compile_processor_seconds"]
                return {
                    "rule": case.rule,
                    "instance": case.instance,
                    "stopping": case.stopping[0],
                    "samples a run": f"at most {case.max_samples}",
                    "us/sample": 1e6 * seconds / first["samples_drawn"],
                    "useful/computed": useful(found),
                    "seconds": seconds,
                    "compile s": first["compile_seconds"],
                    "mean tau": found["mean_tau"],
                    "stopped": found["stopped"],
                    "errors": found["errors"],
                }

            section.attempt(f"{name} on {instance}", measure, row)
    section.notes.append(f"{runs} runs each; most of them are cut off, so that few lanes idle.")
    return section
