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
from pathlib import Path
from typing import Any

from benchmarks.processes import MeasurementError, child
from benchmarks.report import Section, Sitting

ROWS = {
    "ebtci, 4 coins": ("EBTCI", 4),
    "lucb, 4 coins": ("LUCB", 4),
    "uniform, 4 coins": ("Uniform", 4),
    "lingape, linear-d20": ("LinGapE", None),
    "lazy-tas, linear-d20": ("LazyTaS", None),
    "fws, linear-d20": ("FWS", None),
    "tas, 4 coins": ("TrackAndStop", 4),
}
"""A rule, and its number of coins; None: the arms of linear-d20."""
QUICK = ("ebtci, 4 coins", "lingape, linear-d20")
SINGLY = ("ebtci, 4 coins", "lingape, linear-d20")
"""Rows that take all rewards one by one too."""


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
            began = time.perf_counter()
            run.tell(run.ask(), reward)
            wall.append(1e3 * (time.perf_counter() - began))
        processor = 1e3 * (time.process_time() - processor) / count
        tail = sorted(wall)[int(0.99 * count)]
        return {"median": statistics.median(wall), "99%": tail, "processor": processor}

    found: dict[str, Any] = {"first s": first, **timed(pulls)}
    with tempfile.TemporaryDirectory() as folder:
        run.save(Path(folder) / "run.live")
        found["in a file"] = timed(pulls)["median"]
        run.close()
    began = time.perf_counter()
    run.tell(np.resize(np.arange(len(run.names)), many), rewards(many))
    found["many at once s"] = time.perf_counter() - began
    if name in SINGLY:
        began = time.perf_counter()
        for reward in rewards(many):
            run.tell(run.ask(), reward)
        found["many one by one s"] = time.perf_counter() - began
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run.live"
            began = time.perf_counter()
            run.save(path)
            found["save s"] = time.perf_counter() - began
            found["file MB"] = path.stat().st_size / 1e6
            run.close()
            began = time.perf_counter()
            je.LiveRun.load(path)
            found["load s"] = time.perf_counter() - began
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
