"""A live run: one `ask` and `tell`, the first of them, memory, and many rewards.

Each row is a process of its own. The rewards are a fixed stream of random numbers, and
delta is so small that no run stops.
"""

import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measure import MeasurementError, child
from benchmarks.report import Section, Sitting

ROWS = {
    "ebtci, 4 coins": ("EBTCI", 4), "lucb, 4 coins": ("LUCB", 4),
    "uniform, 4 coins": ("Uniform", 4), "lingape, linear-d20": ("LinGapE", None),
    "lazy-tas, linear-d20": ("LazyTaS", None), "fws, linear-d20": ("FWS", None),
    "tas, 4 coins": ("TrackAndStop", 4),
}  # fmt: skip
"""A rule, and its number of coins; None: the arms of linear-d20."""
QUICK = SINGLY = ("ebtci, 4 coins", "lingape, linear-d20")
"""Rows of --quick; and those that take all rewards one by one too."""


def seconds(work: Callable[[], Any]) -> float:
    """The wall time of a call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measured(name: str, pulls: int, many: int) -> dict[str, Any]:
    """Times of a row, in milliseconds of wall and of processor time."""
    import numpy as np

    import jaxelim as je

    rule, coins = ROWS[name]
    common: dict[str, Any] = dict(delta=1e-300, threshold=je.Heuristic())
    arms: Any = coins
    if coins is None:
        arms = je.load_instance("linear-d20").arms
        common["stopping"] = je.SelectiveElimination()
    else:
        common["family"] = je.Bernoulli()
    rng = np.random.default_rng(0)

    def rewards(size: int) -> list[float]:
        drawn = rng.normal(size=size) if coins is None else (rng.random(size) < 0.5) + 0.0
        return drawn.tolist()

    began = time.perf_counter()
    run = je.LiveRun(arms, je.BestArm(), getattr(je, rule)(), **common)
    for reward in rewards(run.first + 1):
        run.tell(run.ask(), reward)
    first = time.perf_counter() - began

    def timed(count: int) -> dict[str, float]:
        wall, processor = [], time.process_time()
        for reward in rewards(count):
            wall.append(1e3 * seconds(lambda x=reward: run.tell(run.ask(), x)))
        processor = 1e3 * (time.process_time() - processor) / count
        tail = sorted(wall)[int(0.99 * count)]
        return {"median": statistics.median(wall), "99%": tail, "processor": processor}

    found: dict[str, Any] = {"first s": first, **timed(pulls)}
    with tempfile.TemporaryDirectory() as folder:
        path, again = Path(folder) / "run.live", Path(folder) / "again.live"
        run.save(path)
        found["in a file"] = timed(pulls)["median"]
        run.close()
        asked = np.resize(np.arange(len(run.names)), many), rewards(many)
        found["many at once s"] = seconds(lambda: run.tell(*asked))
        if name in SINGLY:
            each = rewards(many)
            found["many one by one s"] = seconds(lambda: [run.tell(run.ask(), x) for x in each])
            found["save s"] = seconds(lambda: run.save(again))
            found["file MB"] = again.stat().st_size / 1e6
            run.close()
            found["load s"] = seconds(lambda: je.LiveRun.load(again))
    found["peak MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found["told"] = run.told
    return found


def run(sitting: Sitting) -> Section:
    """Time all rows, each in a process on one core."""
    pulls, many = (200, 2000) if sitting.quick else (2000, 100_000)
    section = Section(
        f"Live runs: ms of one ask and tell, of {pulls}; s of {many} rewards; float64"
    )
    for name in QUICK if sitting.quick else ROWS:
        try:
            said = child("benchmarks.live", name, pulls, many, core=sitting.core)
        except MeasurementError as error:
            section.failed.append(f"{name}: {error}")
            continue
        section.rows.append({"row": name, **json.loads(said)})
        print(f"  {section.rows[-1]}", flush=True)
    section.notes.append(
        "'first s': from the constructor to the first choice, compilation included, with the "
        "cache of programs that exists. 'in a file': every event flushed to the disk."
    )
    return section


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
