"""LinGapE by lanes on a GPU; without one, marked estimates from bytes and launches."""

from benchmarks.cases import Case, Timing, whole_chunks
from benchmarks.processes import MeasurementError, apart
from benchmarks.report import Section, Sitting, typical, useful

LANES = (1024, 2048, 4096, 8192, 16_384, 32_768, 65_536)
BANDWIDTH = 3.3e12  # bytes a second: high-bandwidth memory of a current data-centre GPU
# Per step: three argmax reductions, three products, gathers, rank-1 update, K-vectors.
KERNELS = 15
LAUNCH = 3e-6  # seconds between two kernels of a device-side loop


def run(sitting: Sitting) -> Section:
    """Measure on the first GPU that JAX finds; without one, estimate."""
    try:
        here = apart(None, Timing(), platform=None)
    except MeasurementError as error:
        section = Section("GPU: LinGapE on linear-d20")
        section.failed.append(f"JAX found no backend it could start: {error}")
        return section
    return estimated(sitting) if here["platform"] == "cpu" else measured(sitting, here["device"])


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


def estimated(sitting: Sitting) -> Section:
    """Estimate from the state's size.

    A step reads and writes the state once and launches its kernels one after the other.
    """
    section = Section("GPU: there is none here. The figures below are ESTIMATES: no GPU was timed")
    found = None
    try:
        found = apart(Case("lingape", runs=64, max_samples=100), Timing(0, sitting.core))
    except MeasurementError as error:
        section.failed.append(str(error))
        return section
    state = found["state_bytes_per_lane"]
    for lanes in LANES:
        moving, launching = 2 * state * lanes / BANDWIDTH, KERNELS * LAUNCH
        seconds = moving + launching
        section.rows.append(
            {
                "lanes": lanes,
                "estimate": True,
                "us a step of all": 1e6 * seconds,
                "of which moving bytes": 1e6 * moving,
                "of which launching": 1e6 * launching,
                "M samples/s": lanes / seconds / 1e6,
            }
        )
    section.notes.append(
        f"Assumed: {state:.0f} bytes of state a lane (design: {found['plan']['design']}), "
        f"read and written once a step at {BANDWIDTH / 1e12:g} TB/s; {KERNELS} kernels a step, "
        f"{1e6 * LAUNCH:g} us each to launch; arithmetic is hidden."
    )
    return section
