"""Results without an engine, from arrays of stopping times."""

from typing import Any

import numpy as np

import jaxelim as je

INSTANCE = je.Instance.unstructured([1.0, 0.0])


def made(
    samples: Any, correct: Any = True, *, seed: int = 0, runs: Any = None, cap: Any = None,
    deltas: Any = None, stopping: Any = None, instance: Any = INSTANCE, **more: Any,
) -> je.Result:  # fmt: skip
    """A result of samples [run], [delta, run] or [stopping, delta, run]; truncated at `cap`."""
    samples = np.array(samples, float, ndmin=3)
    *_, s, d, r = samples.shape
    call = je.Experiment(
        instance, je.BestArm(), je.Uniform(), seed=seed, runs=r if runs is None else runs,
        delta=[0.1, 0.01, 0.001, 1e-4, 1e-5, 1e-6][:d] if deltas is None else deltas,
        stopping=(je.LLR(), je.SelectiveElimination())[:s] if stopping is None else stopping,
    )  # fmt: skip
    fields: dict[str, Any] = {
        "samples": samples if cap is None else np.minimum(samples, cap),
        "stopped": np.ones(samples.shape, bool) if cap is None else samples < cap,
        "correct": np.broadcast_to(correct, samples.shape),
        "origin": {"proven": "of no engine"}, "layout": {},
        "timings": {"seconds": 2.0, "samples_drawn": 9, "compile_seconds": 1.0},
    }  # fmt: skip
    rest = dict.fromkeys(("answer", "pulls", "elimination_times", "tests_stopping",
                          "tests_sampling", "solves"))  # fmt: skip
    return je.Result(experiment=call, **{**rest, **fields, **more})
