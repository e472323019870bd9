"""The hand-written C loop that speeds are held against: built and run on the machine at hand, in the same sitting."""

import re
import shutil
import subprocess
from pathlib import Path

import jaxelim as je

SOURCE = Path(__file__).parent / "lingape_anchor.c"
FLAGS = ("-O3", "-march=native", "-ffast-math")
INSTANCE = "linear-d20"
_LINE = re.compile(r"runs (\d+) mean tau (\S+) err (\d+)\s+us/step (\S+)")


def build(folder: Path) -> dict | None:
    """Compile the anchor into a folder and write its instance: what `measure` takes; None where there is no gcc."""
    compiler = shutil.which("gcc")
    if compiler is None:
        return None
    program, text = folder / "lingape_anchor", folder / f"{INSTANCE}.txt"
    subprocess.run([compiler, *FLAGS, "-w", str(SOURCE), "-o", str(program), "-lm"], check=True)
    instance = je.load_instance(INSTANCE)
    text.write_text("\n".join(" ".join(map(repr, row)) for row in [instance.theta.tolist(), *instance.arms.tolist()]))
    return {"program": str(program), "instance": str(text)}


def measure(program: str, instance: str, runs: int) -> dict:
    """What the anchor finds, on the cores that this process may use: processor time per step in microseconds, and tau."""
    said = subprocess.run([program, str(runs), instance], check=True, capture_output=True, text=True).stdout
    found = _LINE.search(said)
    if found is None:
        raise RuntimeError(f"the anchor said {said!r}")
    return {"runs": int(found[1]), "mean_tau": float(found[2]), "errors": int(found[3]), "us_per_step": float(found[4])}
