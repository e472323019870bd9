"""One device against two on as many cores: by the wall clock, and in processor time."""

from benchmarks.cases import Case, Timing
from benchmarks.processes import apart
from benchmarks.report import Section, Sitting, typical, useful

WALL, PROCESSOR = 1.7, 1.18
"""Asked of two devices: samples a second on idle cores, processor time per sample on busy ones, both against one."""
BUSY = 1.1
"""Wall clock over processor time of one device from which on the machine counts as busy with other work."""


def run(sitting: Sitting) -> Section:
    """The same runs on one device and on two, not pinned."""
    section = Section("Devices: LinGapE on linear-d20; nothing is pinned")
    if sitting.cores < 2:
        section.notes.append("There is only one core here: two devices would take turns on it.")
        return section
    runs = sitting.runs or (128 if sitting.quick else 1000)
    cap = sitting.max_samples or (1000 if sitting.quick else 1_000_000)
    measured = {}
    for devices in (1, 2):
        case = Case("lingape", runs=runs, max_samples=cap, devices=devices)

        def measure(case=case, devices=devices):
            return apart(case, Timing(sitting.repeats or (1 if sitting.quick else 3)), devices=devices)

        def row(found, devices=devices):
            return {
                "devices": devices,
                "wall us/sample": typical(found, "wall"),
                "processor us/sample": typical(found),
                "wall/processor": typical(found, "wall") / typical(found),
                "useful/computed": useful(found),
                "M samples/s": 1 / typical(found, "wall"),
            }

        found = section.attempt(f"{devices} of 2 devices", measure, row)
        if found is not None:
            measured[devices] = found
    if len(measured) == 2:
        one, two = measured[1], measured[2]
        speed, cost = typical(one, "wall") / typical(two, "wall"), typical(two) / typical(one)
        busy = typical(one, "wall") > BUSY * typical(one)
        section.notes += [
            f"Two devices against one: {speed:.2f} times the samples a second by the wall clock (asked for: {WALL}),",
            f"{cost:.2f} times the processor time per sample (asked for on a busy machine: at most {PROCESSOR}).",
        ]
        if busy:
            section.notes.append("BUSY MACHINE: one device alone waited for its core. Go by the processor time.")
    return section
