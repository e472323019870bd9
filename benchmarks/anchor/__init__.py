"""The hand-written C loop that speeds are compared with, built on this machine."""

import re
import shutil
import subprocess
from pathlib import Path

import jaxelim as je
from benchmarks.measure import MeasurementError, child

SOURCE = Path(__file__).parent / "lingape_anchor.c"
FLAGS = ("-O3", "-march=native", "-ffast-math")
INSTANCE = "linear-d20"
_LINE = re.compile(r"runs (\d+) mean tau (\S+) err (\d+)\s+us/step (\S+)")


def build(folder: Path) -> dict | None:
    """Compile the anchor into a folder: the arguments of `measure` but `runs`; None without gcc."""
    compiler = shutil.which("gcc")
    if compiler is None:
        return None
    program, text = folder / "lingape_anchor", folder / f"{INSTANCE}.txt"
    subprocess.run([compiler, *FLAGS, "-w", str(SOURCE), "-o", str(program), "-lm"], check=True)
    instance = je.load_instance(INSTANCE)
    rows = [instance.theta.tolist(), *instance.arms.tolist()]
    text.write_text("\n".join(" ".join(map(repr, row)) for row in rows))
    return {"program": str(program), "instance": str(text)}


def measure(program: str, instance: str, runs: int) -> dict:
    """Run the anchor: mean tau, errors and processor time per step, in microseconds."""
    command = [program, str(runs), instance]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = _LINE.search(said)
    if found is None:
        raise RuntimeError(f"the anchor said {said!r}")
    return {"runs": int(found[1]), "mean_tau": float(found[2]), "errors": int(found[3]),
            "us_per_step": float(found[4])}  # fmt: skip


def prototype(core: int | None) -> float | None:
    """Microseconds of LinGapE's step in plain JAX, `lanes_last.py`, on one core; None: failed."""
    try:
        said = child("benchmarks.anchor.lanes_last", core=core)
    except MeasurementError:
        return None
    found = re.search(r"us/step (\S+)", said)
    return float(found[1]) if found else None
