"""Cold start: the first and the second process with a cache of compiled programs."""

from benchmarks.cases import Case, Timing
from benchmarks.processes import apart, fresh_cache
from benchmarks.report import Section, Sitting

ALLOWED = 0.5


def run(sitting: Sitting) -> Section:
    """Time two processes in turn on an empty cache, up to their first result."""
    section = Section(
        "Cold start: seconds to the first result, the cache of compiled programs empty at first"
    )
    for rule in ("lingape",) if sitting.quick else ("lingape", "lingame", "fws"):
        case = Case(rule, runs=64, max_samples=200)
        first = []
        with fresh_cache() as cache:
            for which in ("first", "second"):

                def measure(case=case, cache=cache):
                    return apart(case, Timing(0, sitting.core), environment=cache)

                def row(found, rule=rule, which=which, first=first):
                    first.append(found)
                    return {
                        "rule": rule,
                        "process": which,
                        "wall s": found["process_wall_seconds"],
                        "processor s": found["process_cpu_seconds"],
                        "of which compiling": found["first"]["compile_seconds"],
                        "wall, x first": found["process_wall_seconds"]
                        / first[0]["process_wall_seconds"],
                        "processor, x first": found["process_cpu_seconds"]
                        / first[0]["process_cpu_seconds"],
                    }

                section.attempt(f"{rule}, {which} process", measure, row)
    section.notes.append(
        f"64 runs of at most 200 samples. Asked for: the second at most {ALLOWED} of the first."
    )
    return section
