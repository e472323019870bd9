"""The public call `study`: check every combination, run them as one, name the results."""

import os
from collections.abc import Callable, Sequence
from typing import Any

from jaxelim import checks
from jaxelim.contracts import StoppingRule
from jaxelim.simulation import blocks
from jaxelim.simulation.call import Engine
from jaxelim.simulation.results.result import Result
from jaxelim.stopping.llr import LLR
from jaxelim.studies.grid import labels_of, places
from jaxelim.studies.study import Study
from jaxelim.thresholds.basic import Heuristic


def study(
    instances: Any,
    problem: Any,
    rules: Any,
    *,
    delta: Any = 0.01,
    stopping: StoppingRule | str | Sequence[Any] = LLR(),  # noqa: B008 (frozen)
    elimination: Any = None,
    threshold: Callable | str = Heuristic(),  # noqa: B008 (frozen)
    runs: Any = 1000,
    seed: int = 0,
    max_samples: int = checks.MAX_SAMPLES,
    ridge: float | None = None,
    record: Sequence[str] = (),
    engine: Engine = Engine(),  # noqa: B008 (frozen)
    progress: Any = None,
    initial_pulls: int | None = None,
    executor: Any = None,
    block: int | None = None,
    store: str | os.PathLike[str] | None = None,
) -> Study:
    """Run several rules on several instances and problems, as `simulate` does each.

    Every combination has the same seed and runs, so rules are compared on the same noise.
    All combinations are checked before the first runs.

    Args:
        instances: an instance, a batch, the name or the path of one, or several of them,
            in a list or a mapping from names. Each instance of a batch has a result. A
            mapping with the key "instance" gives costs: {"instance": .., "costs": [..]}.
        problem: a problem, or several likewise. Also the names of the command line, alone
            or in a mapping with its settings: {"problem": "top-m", "m": 3}.
        rules: a sampling rule, or several likewise. A mapping with the key "rule" gives a
            rule arguments of its own: {"rule": LUCB(), "stopping": Native()}. They are
            delta, stopping, elimination, threshold, ridge, max_samples, record and
            initial_pulls; of a rule by name also "settings".
        delta, runs, seed, max_samples, ridge, record, engine, initial_pulls: as of
            `simulate`.
        stopping, elimination, threshold: as of `simulate`, or their names. A threshold by
            name takes its numbers from each instance and problem.
        progress: as of `simulate`; one line for all.
        executor: as of `simulate`; blocks of all combinations are dealt to its workers.
        block: as of `simulate`; None: with executor or store by all runs together.
        store: as of `simulate`. The same study goes on from there, and `load_store` reads
            it.

    Returns:
        A `Study`, with a `Result` for each combination.

    Raises:
        ArgumentError: an argument is wrong, or a combination is not defined. Its class is
            that of `simulate`, and its note names rule, instance and problem.
        Interrupted: Ctrl-C. Its `result` is a `Study` of the finished blocks.
        StoreError, WorkerError, FamilyError, RuleError, SetupError: as `simulate`.

    Example:
        >>> found = study("linear-d10", "best-arm", ["lingape", "lucb"], runs=100)  # doctest: +SKIP
        >>> print(found.compare(baseline="LUCB"))  # doctest: +SKIP
    """
    found = places(
        instances, problem, rules, delta=delta, stopping=stopping, elimination=elimination,
        threshold=threshold, runs=runs, seed=seed, max_samples=max_samples, ridge=ridge,
        record=record, engine=engine, initial_pulls=initial_pulls,
    )  # fmt: skip
    calls = [place.call for place in found]
    blocks.check(calls[0], progress, executor, block)

    def made(results: list[Result | None]) -> Study:
        return Study.of(
            ((place.rule, place.instance, place.problem), result)
            for place, result in zip(found, results, strict=True)
        )

    labels = list(map(labels_of, found))
    return blocks.run_calls(calls, made, progress, executor, block, store, labels)
