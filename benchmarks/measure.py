"""One case, timed in this process, which does nothing else: `python -m benchmarks.measure SPEC.json RESULT.json`.

Started by `benchmarks.processes`; the environment and the core it is pinned to have to be settled before JAX is imported.
"""

import dataclasses
import gc
import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from benchmarks.cases import Case, Timing


def peak_memory() -> int:
    """The most memory this process has held at once, in bytes. Linux's ru_maxrss begins at the parent's; VmHWM does not."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def find_instance(name: str) -> Any:
    """A shipped instance, or "K x d": directions uniform on the sphere, gaps of about a hundredth."""
    import numpy as np

    import jaxelim as je

    if " x " not in name:
        return je.load_instance(name)
    K, d = map(int, name.split(" x "))
    rng = np.random.default_rng(0)
    arms = rng.standard_normal((K, d))
    return je.Instance(
        arms / np.linalg.norm(arms, axis=1, keepdims=True), 0.01 * rng.standard_normal(d), name=name
    )


def arguments(case: Case) -> tuple[tuple, dict]:
    """What `je.simulate` is called with."""
    import jaxelim as je
    from jaxelim import catalogue

    rule = catalogue.find_rule(case.rule)(
        **({} if case.schedule is None else {"schedule": case.schedule})
    )
    known = catalogue.stopping_rules()
    looks = case.elimination is not None and rule.traits.elimination
    settings = {
        "delta": list(case.delta),
        "stopping": tuple(known[name]() for name in case.stopping),
        "elimination": known[case.elimination]() if looks else None,
        "runs": case.runs,
        "max_samples": case.max_samples,
        "ridge": 1.0,  # the paper's setting
        "engine": je.Engine(lanes=case.lanes, devices=case.devices),
    }
    return (
        find_instance(case.instance),
        catalogue.find_problem(case.problem, case.m, 0.0),
        rule,
    ), settings


def planned(given: tuple, settings: dict) -> tuple:
    """The spec that such a call is compiled for, and the inputs and queue of its program. Under `scope.engine`."""
    from jaxelim.simulation.drive import inputs_of, queue_of, spec_of
    from jaxelim.simulation.job import Job
    from jaxelim.stopping import thresholds

    job = Job.checked(
        *given,
        settings["delta"],
        settings["stopping"],
        settings["elimination"],
        thresholds.Heuristic(),
        settings["runs"],
        0,
        settings["max_samples"],
        settings.get("ridge", 1.0),
        None,
        (),
        settings["engine"],
    )
    spec = spec_of(job)
    return spec, inputs_of(job, spec), queue_of(job, spec)[0]


def bytes_per_lane(given: tuple, settings: dict, plan: dict) -> dict:
    """The state that a lane carries from step to step, and the noise drawn for it at a time: K initial pulls' and a chunk's."""
    import jax
    import numpy as np

    from jaxelim import engine, scope

    with scope.engine():
        spec, inputs, queue = planned(given, settings)
        lane = engine.program(spec, inputs).empty(inputs, queue).lane
    # all lanes share the others
    own = [x for x in jax.tree.leaves(lane) if np.ndim(x) and x.shape[-1] == spec.lanes]
    state = sum(x.nbytes for x in own) / (spec.lanes * spec.devices)
    return {
        "state_bytes_per_lane": state,
        "noise_bytes_per_lane": (given[0].K + plan["chunk"]) * spec.dtype.itemsize,
    }


def timed(case: Case, timing: Timing, anchor_files: dict | None) -> dict:
    """Time a case: the first call compiles and is kept apart, and so is any later one that still compiles something."""
    import jax

    import jaxelim as je
    from benchmarks import anchor, kernels
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
        took = {
            "cpu_seconds": time.process_time() - cpu,
            "wall_seconds": time.perf_counter() - wall,
        }
        kept = (
            "samples_drawn",
            "samples_computed",
            "choose_rounds",
            "compile_seconds",
            "compile_processor_seconds",
        )
        work = {key: result.timings[key] for key in kept}
        return {**took, **work, "compiled": traces() > known}, result

    # Where calls are timed, the programs of few lanes too: those calls then move their last runs to them, as they do in any
    # process that has them.
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
        "platform": device.platform,
        "device": device.device_kind,
        "devices": len(jax.devices()),
        "rule": repr(given[2]),
        "settings": {key: repr(settings[key]) for key in ("stopping", "elimination", "engine")},
        "plan": {key: value for key, value in result.layout.items()},
        "first": first,
        "calls": calls,
        "calls_that_compiled": left_out,
        "anchors": anchors,
        "mean_tau": float(result.samples.mean()),
        "tests_per_sample": [
            float(x.sum() / result.samples.sum())
            for x in (result.tests_stopping, result.tests_sampling)
        ],
        "stopped": float(result.stopped.mean()),
        "errors": int((~result.correct & result.stopped).sum()),
        "memory_before_bytes": before,
        "peak_memory_bytes": peak,
        **bytes_per_lane(given, settings, result.layout),
        **({"kernels": kernels.of(given, settings)} if timing.profile else {}),
    }


def main(spec: Path, output: Path) -> None:
    """Pin this process, time the case, write what was found."""
    asked = json.loads(spec.read_text())
    core = asked["timing"]["core"]
    warnings.filterwarnings("ignore", message="ridge = 1 may")  # the paper's setting
    if core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    if asked["case"] is None:
        import jax

        found = {
            "platform": jax.default_backend(),
            "device": jax.devices()[0].device_kind,
            "devices": len(jax.devices()),
        }
    else:
        case = Case(**asked["case"])
        found = timed(case, Timing(**asked["timing"]), asked["anchor"])
    output.write_text(json.dumps(found))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
