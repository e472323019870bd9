"""LinGapE on linear-d20, best arm, selective elimination at stopping and sampling: microseconds of processor time per sample,
all in (noise, tests, counts, harvest), compilation apart. Run pinned, one device, one thread:

    JAX_NUM_CPU_DEVICES=1 NPROC=1 taskset -c 0 python -m benchmarks.lingape --runs 1000
"""

import dataclasses
import statistics
import time

import tyro

import jaxelim as je
from jaxelim.result import aligned


@dataclasses.dataclass(frozen=True)
class Bench:
    """What to time."""

    runs: int = 1000
    repeats: int = 3
    lanes: tuple[int, ...] = (64,)
    form: tuple[str, ...] = ("arms",)


def main(config: Bench) -> None:
    instance, selective = je.load_instance("linear-d20"), je.SelectiveElimination()
    rows = []
    for form in config.form:
        for lanes in config.lanes:
            times = []
            for _ in range(config.repeats + 1):  # the first compiles
                began = time.process_time()
                result = je.simulate(instance, je.BestArm(), je.LinGapE(), runs=config.runs, stopping=selective,
                                     elimination=selective, engine=je.Engine(lanes=lanes, form=form, devices=1))
                times.append(time.process_time() - began)
            work = result.work
            rows.append({"form": form, "lanes": lanes, "runs": config.runs,
                         "us/sample": round(1e6 * statistics.median(times[1:]) / work["samples_drawn"], 3),
                         "useful/computed": round(work["samples_drawn"] / work["samples_computed"], 3),
                         "mean tau": float(result.samples.mean()), "errors": int((~result.correct).sum())})
            print(rows[-1], flush=True)
    print("\n".join(aligned(rows)))


if __name__ == "__main__":
    main(tyro.cli(Bench))
