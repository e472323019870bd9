"""The public call `study`: check every combination, run them as one, name the results."""

import os
from typing import Any, Unpack

from jaxelim.simulation import blocks
from jaxelim.simulation.experiment import Settings, takes_settings
from jaxelim.simulation.results.result import Result
from jaxelim.studies.grid import places
from jaxelim.studies.study import Study


@takes_settings("noise")
def study(
    instances: Any,
    problem: Any = None,
    rules: Any = None,
    *,
    progress: Any = None,
    executor: Any = None,
    block: int | None = None,
    store: str | os.PathLike[str] | None = None,
    **settings: Unpack[Settings],
) -> Study:
    """Run several rules on several instances and problems, as `simulate` does each.

    Every combination has the same seed and runs, so rules are compared on the same noise.
    All combinations are checked before the first runs.

    Args:
        instances: an instance, a batch, the name or the path of one, or several of them,
            in a list or a mapping from names. Each instance of a batch has a result. A
            mapping with the key "instance" gives costs: {"instance": .., "costs": [..]}. Or,
            without problem and rules, experiments by name: `{"a": Experiment(..), ..}`.
        problem: a problem, or several likewise. Also texts, as on the command line: "TopM(3)".
        rules: a sampling rule or its text, or several likewise. A mapping with the key "rule"
            gives a rule arguments of its own: {"rule": LUCB(), "stopping": Native()}. They are
            those of `simulate` but instance, problem, runs, seed and engine.
        settings: all others as of `simulate`. Stopping rules, elimination and threshold may be
            texts.
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
        >>> rules = ["lingape", "LUCB(pulls=2)"]
        >>> found = study("linear-d10", "best-arm", rules, runs=100)  # doctest: +SKIP
        >>> print(found.compare(baseline="LUCB"))  # doctest: +SKIP
    """
    found = places(instances, problem, rules, **settings)
    calls = [place.call for place in found]
    blocks.check(calls[0], progress, executor, block)

    def made(results: list[Result | None]) -> Study:
        return Study.of(
            (place[:3], result) for place, result in zip(found, results, strict=True)
        )

    labels = [
        {"rule": place.rule, "instance": place.instance, "problem": place.problem}
        for place in found
    ]
    return blocks.run_calls(calls, made, progress, executor, block, store, labels)
