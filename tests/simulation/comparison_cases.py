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


def pair(rng: np.random.Generator, kind: str, n: int, paired: bool) -> tuple[Any, Any, float]:
    """Two samples [n] of skewed stopping times, the first mean over the second, and both means.

    "gamma": of shapes 2 and 3, with a common part. "lognormal": of deviation 0.8 and
    correlation 0.6. Not paired: the second is from draws of its own.
    """
    draws = [_pair(rng, kind, n) for _ in range(1 if paired else 2)]
    means = {"gamma": (200.0, 300.0), "lognormal": (300 * np.exp(0.32), 400 * np.exp(0.32))}
    return draws[0][0], draws[-1][1], means[kind]


def _pair(rng: np.random.Generator, kind: str, n: int) -> tuple[Any, Any]:
    if kind == "gamma":
        common, one, other = (rng.gamma(shape, 100, n) for shape in (1.0, 1.0, 2.0))
        return common + one, common + other
    z, noise = rng.standard_normal((2, n))
    return 300 * np.exp(0.8 * z), 400 * np.exp(0.8 * (0.6 * z + 0.8 * noise))
