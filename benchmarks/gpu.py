"""LinGapE by lanes on a GPU; without one, marked estimates from the compiled program."""

from benchmarks.cases import Case, Timing, whole_chunks
from benchmarks.processes import MeasurementError, apart
from benchmarks.report import Section, Sitting, typical, useful

LANES = (1024, 2048, 4096, 8192, 16_384, 32_768, 65_536)
# Assumed of an H200, and checked on none.
GRAPH, NODE, LAUNCH = 6e-6, 1.3e-6, 2.5e-6  # seconds: of a graph, a node, a launch outside
BANDWIDTH = 4.8e12  # bytes a second
# LinGapE's step as `benchmarks.gpu_program` counts it; the last node is the loop's test.
NODES = 15 + 0 + 4 + 1
BYTES = 24_300  # that a step reads and writes for a lane


def seconds(graphs: int, nodes: int, outside: int, moved: float) -> float:
    """The estimated time of a step that moves that many bytes."""
    return GRAPH * graphs + NODE * nodes + LAUNCH * outside + moved / BANDWIDTH


def run(sitting: Sitting) -> Section:
    """Measure on the first GPU that JAX finds; without one, estimate."""
    try:
        here = apart(None, Timing(), platform=None)
    except MeasurementError as error:
        section = Section("GPU: LinGapE on linear-d20")
        section.failed.append(f"JAX found no backend it could start: {error}")
        return section
    return estimated() if here["platform"] == "cpu" else measured(sitting, here["device"])


def measured(sitting: Sitting, device: str) -> Section:
    """Time runs of equal length by the wall clock, two per lane."""
    samples = sitting.max_samples or whole_chunks(4)
    section = Section(f"GPU, measured: LinGapE on linear-d20, {device}")
    for lanes in LANES[:: 3 if sitting.quick else 1]:
        case = Case("lingape", runs=2 * lanes, lanes=lanes, max_samples=samples)

        def measure(case=case):
            return apart(
                case, Timing(sitting.repeats or (1 if sitting.quick else 3)), platform=None
            )

        def row(found, lanes=lanes):
            return {
                "lanes": lanes,
                "estimate": False,
                "us a step of all": typical(found, "wall") * lanes * useful(found),
                "wall ns/sample": 1e3 * typical(found, "wall"),
                "M samples/s": 1 / typical(found, "wall"),
                "useful/computed": useful(found),
                "compile s": found["first"]["compile_seconds"],
            }

        section.attempt(f"{lanes} lanes", measure, row)
    return section


def estimated() -> Section:
    """Estimate from the nodes and bytes of a step, all chunks of which are one graph."""
    section = Section("GPU: there is none here. The figures below are ESTIMATES: no GPU was timed")
    for lanes in LANES:
        whole, issuing = seconds(0, NODES, 0, BYTES * lanes), seconds(0, NODES, 0, 0)
        section.rows.append(
            {
                "lanes": lanes,
                "estimate": True,
                "us a step of all": 1e6 * whole,
                "of which moving bytes": 1e6 * (whole - issuing),
                "of which nodes": 1e6 * issuing,
                "M samples/s": lanes / whole / 1e6,
            }
        )
    section.notes.append(
        f"Assumed: {NODES} nodes a step, {1e6 * NODE:g} us each; {BYTES} bytes a lane, at "
        f"{BANDWIDTH / 1e12:g} TB/s; arithmetic is hidden. Counted by benchmarks.gpu_program."
    )
    return section
