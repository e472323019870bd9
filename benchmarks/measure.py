"""Time a case in a process of its own, with its own environment and memory.

That process is `python -m benchmarks.measure SPEC.json RESULT.json`. JAX is imported inside the
functions: the environment and the core to pin to must be settled first.
"""

import dataclasses
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CHUNK = 256  # the engine's default on every backend


def whole_chunks(chunks: int, arms: int = 50) -> int:
    """The cap that ends every run in the last step of `chunks` chunks.

    All runs are then equally long, and no lane idles.
    """
    return arms + CHUNK * chunks - 1


@dataclasses.dataclass(frozen=True)
class Case:
    """A call of `je.simulate`, in values that JSON holds.

    Args:
        rule, problem: texts as on the command line.
        instance: a shipped instance, or means, "0.5, 0.3".
        elimination: at sampling, if the rule supports it: "selective", "full" or None.
        max_samples: the cap; runs that reach it are equally long.
        lanes, devices: None leaves the choice to the engine.
        family: of rewards, for an instance given by its means; None: Gaussian.
    """

    rule: str
    problem: str = "best-arm"
    instance: str = "linear-d20"
    stopping: tuple[str, ...] = ("selective",)
    elimination: str | None = "selective"
    delta: tuple[float, ...] = (0.01,)
    runs: int = 1000
    max_samples: int = 1_000_000
    lanes: int | None = None
    devices: int | None = 1
    family: str | None = None


@dataclasses.dataclass(frozen=True)
class Timing:
    """How a case is timed.

    Args:
        repeats: timed calls, after one that compiles.
        core: the core to pin the process to; None: all cores.
        anchor: runs of the C anchor around every timed call; 0 for none.
    """

    repeats: int = 3
    core: int | None = None
    anchor: int = 0


def arguments(case: Case) -> tuple[tuple, dict]:
    """The instance, problem and rule of a case, and the keywords of `je.simulate`."""
    import jaxelim as je
    from jaxelim import catalogue

    if ", " in case.instance:
        own = () if case.family is None else (catalogue.made("family", case.family),)
        instance = je.Instance.unstructured(list(map(float, case.instance.split(", "))), *own)
    else:
        instance = je.load_instance(case.instance)
    rule = catalogue.made("rule", case.rule)
    looks = case.elimination is not None and rule.traits.elimination
    settings: dict[str, Any] = {
        "delta": list(case.delta),
        "stopping": tuple(catalogue.made("stopping", name) for name in case.stopping),
        "elimination": catalogue.made("elimination", case.elimination) if looks else None,
        "runs": case.runs,
        "max_samples": case.max_samples,
        "ridge": 1.0 if case.family is None else None,  # 1: the paper's setting
        "engine": je.Engine(lanes=case.lanes, devices=case.devices),
    }
    return (instance, catalogue.made("problem", case.problem), rule), settings


def peak_memory() -> int:
    """Peak resident memory of this process, in bytes.

    Prefers VmHWM: Linux's ru_maxrss starts at the parent's peak.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def timed(case: Case, timing: Timing, anchor_files: dict | None) -> dict:
    """Time a case; calls that compile are reported apart from the others."""
    import jax

    import jaxelim as je
    from benchmarks import anchor
    from jaxelim import engine

    device = jax.devices()[0]
    given, settings = arguments(case)
    before = peak_memory()

    def traces() -> int:
        return sum(program.traces for program in engine.program.values())

    def call(**more: Any) -> tuple[dict, Any]:
        gc.collect()
        known, cpu, wall = traces(), time.process_time(), time.perf_counter()
        result = je.simulate(*given, **{**settings, **more})
        took = {"cpu_seconds": time.process_time() - cpu,
                "wall_seconds": time.perf_counter() - wall}  # fmt: skip
        work = {key: result.timings[key] for key in (
            "samples_drawn", "samples_computed", "compile_seconds", "compile_processor_seconds",
        )}  # fmt: skip
        return {**took, **work, "compiled": traces() > known}, result

    # Also compile the program of one lane: timed calls move their last runs to it.
    shrink = True if timing.repeats else None
    first, result = call(engine=dataclasses.replace(settings["engine"], shrink=shrink))
    calls, left_out, anchors = [], [], []
    while len(calls) < timing.repeats:
        if anchor_files is not None:
            anchors.append(anchor.measure(**anchor_files, runs=timing.anchor))
        one, result = call()
        if one["compiled"] and len(left_out) < 3:
            left_out.append(one)
            anchors = anchors[: len(calls)]
        else:
            calls.append(one)
    if anchor_files is not None:
        anchors.append(anchor.measure(**anchor_files, runs=timing.anchor))
    peak = peak_memory()
    return {
        "platform": device.platform, "device": device.device_kind, "devices": len(jax.devices()),
        "rule": repr(given[2]),
        "settings": {key: repr(settings[key]) for key in ("stopping", "elimination", "engine")},
        "plan": dict(result.layout), "first": first, "calls": calls,
        "calls_that_compiled": left_out, "anchors": anchors,
        "mean_tau": float(result.samples.mean()),
        "tests_per_sample": [float(x.sum() / result.samples.sum())
                             for x in (result.tests_stopping, result.tests_sampling)],
        "stopped": float(result.stopped.mean()),
        "errors": int((~result.correct & result.stopped).sum()),
        "memory_before_bytes": before, "peak_memory_bytes": peak,
        "device_peak_bytes": (device.memory_stats() or {}).get("peak_bytes_in_use"),
    }  # fmt: skip


class MeasurementError(Exception):
    """A timing process ended without a result."""


def child(
    module: str, *words: object, devices: int = 1, platform: str | None = "cpu",
    core: int | None = None, environment: dict | None = None, seconds: float | None = None,
) -> str:  # fmt: skip
    """What `python -m module words..` prints, with one thread a device.

    It finds the packages that this process finds, carried in a folder or installed.

    Args:
        devices: CPU devices.
        platform: JAX's platform; None: its default.
        core: the core that it is pinned to; None: all.
        environment: variables added to this process's own.
        seconds: after which it is stopped; None: never.

    Raises:
        MeasurementError: it failed, with its last lines, or was stopped.
    """
    settings = {**os.environ, "NPROC": "1", "JAX_NUM_CPU_DEVICES": str(devices),
                **(environment or {})}  # fmt: skip
    if platform is not None:
        settings["JAX_PLATFORMS"] = platform
    paths = [str(ROOT), os.environ.get("PYTHONPATH")]
    settings["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    command = [sys.executable, "-m", module, *map(str, words)]
    pinned = None if core is None else lambda: os.sched_setaffinity(0, {core})
    try:
        done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True,
                              timeout=seconds, preexec_fn=pinned, check=False)  # fmt: skip
    except subprocess.TimeoutExpired:
        raise MeasurementError(f"it was stopped after {seconds:.0f} s") from None
    if done.returncode:
        last = " | ".join(done.stderr.strip().splitlines()[-3:])
        raise MeasurementError(f"it ended with {done.returncode}: {last}")
    return done.stdout


def apart(case: Case | None, timing: Timing, *, anchor: dict | None = None, **how: Any) -> dict:
    """Time a case in a new process (`benchmarks.measure`).

    Args:
        case: None only asks for the device.
        anchor: the result of `benchmarks.anchor.build`, to run around every call.
        how: devices, platform, environment and seconds, as of `child`.

    Returns:
        The measurements; process_wall_seconds and process_cpu_seconds cover the whole
        process, Python's start included.

    Raises:
        MeasurementError: as `child`; the message begins with the case.
    """
    spec = {
        "case": None if case is None else dataclasses.asdict(case),
        "timing": dataclasses.asdict(timing),
        "anchor": anchor if timing.anchor else None,
    }
    with tempfile.TemporaryDirectory(prefix="jaxelim-bench-") as folder:
        asked, answer = Path(folder) / "spec.json", Path(folder) / "result.json"
        asked.write_text(json.dumps(spec))
        wall, before = time.perf_counter(), os.times()
        try:
            child("benchmarks.measure", str(asked), str(answer), **how)
        except MeasurementError as error:
            raise MeasurementError(f"{case}: {error}") from None
        after = os.times()
        found = json.loads(answer.read_text())
    spent = sum(after[2:4]) - sum(before[2:4])  # of children
    took = time.perf_counter() - wall
    return {**found, "process_wall_seconds": took, "process_cpu_seconds": spent}


def main(spec: Path, output: Path) -> None:
    """Pin this process, time the case and write the result."""
    asked = json.loads(spec.read_text())
    core = asked["timing"]["core"]
    warnings.filterwarnings("ignore", message="ridge = 1 may")  # the paper's setting
    if core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    if asked["case"] is None:
        import jax

        device = jax.devices()[0].device_kind
        found = dict(platform=jax.default_backend(), device=device, devices=len(jax.devices()))
    else:
        found = timed(Case(**asked["case"]), Timing(**asked["timing"]), asked["anchor"])
    output.write_text(json.dumps(found))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
