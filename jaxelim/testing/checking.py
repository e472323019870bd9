"""One check for all that a user may write: the laws of its kind, one after the other."""

import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from jaxelim import checks, scope
from jaxelim.contracts import Family, Problem, SamplingRule, StoppingRule
from jaxelim.errors import ArgumentError, FamilyError, JaxelimError, RuleError, in_words
from jaxelim.instances.instance import Instance
from jaxelim.progress import INSIDE, Progress, refuse_other
from jaxelim.testing import families, problems, rules
from jaxelim.testing.report import ContractError, Report, World, settings

_CALL = dict.fromkeys(("threshold", "ridge", "initial_pulls", "elimination"))
_SIZES = {"delta": 0.1, "steps": 3000, "runs": 100}
_RUNS = _SIZES | _CALL | {"problem": None, "instance": None, "runs": 400}
_SHOWN = "that it is delta-correct, on other instances or with other thresholds"
KINDS: dict[Any, tuple[Callable[[World], rules.Laws], dict[str, Any], str]] = {
    SamplingRule: (rules.laws, _RUNS, _SHOWN),
    Problem: (lambda world: [("answers and pieces", problems.answers, world),
                             ("its set of pieces", problems.its_set, world)],
              {"instance": None, "draws": 300},
              "other arms; a rate of errors, for which check a rule with this problem"),
    Family: (families.laws, _SIZES | {"draws": 100_000},
             "other means; that it is the family you meant"),
    Instance: (lambda world: [("settings", settings, world.but(thing=world.thing.source)),
                              ("draws", families.source_draws, world),
                              ("runs", families.source_runs, world)],
               _SIZES | {"draws": 20_000},
               "the law of the rewards beside their means; the family's laws"),
    StoppingRule: (rules.stopping_laws, _RUNS | {"rule": None}, _SHOWN),
    Callable: (rules.threshold_laws,
               _RUNS | {"rule": None, "stopping": None, "runs": 2000, "steps": 2000},
               "that other instances keep delta"),
}  # fmt: skip
"""For each kind its laws, the arguments that it takes with their defaults, and what is unseen."""


def check(
    thing: Any, problem: Problem | None = None, instance: Instance | None = None, *,
    seed: int = 0, progress: Any = None, **arguments: Any,
) -> Report:  # fmt: skip
    """Check what a user wrote against the laws of its kind, and say what the check cannot see.

    A law that samples fails what is right with probability 1e-6 at most. The report says its
    n, and the smallest defect that it sees. Laws of form that are broken end the check.

    - A sampling rule chooses arms in range, and a run is the same in every layout, also while
      rewards wait. `prepare` does not depend on theta. Numbers are finite. Wrong answers are as
      rare as delta allows: in several orders of the arms, at delta/10, with gaps of a twentieth,
      and with equal rivals.
    - A problem has another answer at lambda than at theta exactly where lambda lies in a piece
      of theta's. Its set of pieces loses what is refuted alone, and settles.
    - A family's loss is a divergence, and rewards have its likelihood ratio. The evidence is the
      least sum of losses; mixtures have mean 1 at most.
    - The source of an instance has rewards with the arms' means.
    - A threshold, any callable of (t, delta), is positive and monotone, and errs as rarely as
      delta allows on hard instances. It is no proof.
    - A stopping rule ends the same runs alone and in a batch, and changes no other stop.

    Args:
        thing: what to check.
        problem: of the runs; None: best arm, top 2 and signs for a rule, else best arm.
        instance: of the runs, or the arms of a problem. None: easy ones with Gaussian rewards,
            or the two of `hard_instance` for a threshold.
        seed: of all that is drawn.
        progress: as in `simulate`, over the laws. A callable gets (laws over, laws, 0, seconds).
        arguments: by kind. runs: n of each bound of a rate. steps: the cap on samples. delta: the
            error probability, 0.1 by default. draws: rewards of a family at each of five
            means, or of a source's arm, or pairs of theta of a problem. rule: of the runs of a
            threshold or stopping rule; None: `Uniform()`. stopping: of a threshold's runs.
            threshold, ridge, initial_pulls, elimination: as in `simulate`.

    Returns:
        A `Report`. A rate counts runs that were cut off as right, and says how many were.

    Raises:
        ContractError: laws are broken; its text has a sentence of each, its `report` the rest.
        ArgumentError: no such thing, an argument that its kind does not take, or a bad value.

    Example:
        >>> import jaxelim as je
        >>> print(je.testing.check(je.BestArm(), draws=20).verdict)
        passed
    """
    kinds = [found for kind, found in KINDS.items() if isinstance(thing, kind)
             and not isinstance(thing, type) and getattr(thing, "source", kind) is not None]
    if not kinds:
        allowed = "a sampling rule, problem, family, stopping rule, threshold, or an "
        raise ArgumentError("thing", thing, f"{allowed}Instance(source=)")
    laws_of, takes, unseen = kinds[0]
    given = {"problem": problem, "instance": instance} | arguments
    given = {name: value for name, value in given.items() if value is not None}
    for name, value in given.items():
        if name not in takes:
            allowed = f"{', '.join(takes)} for {type(thing).__name__}"
            raise ArgumentError(name, value, allowed)
    given = {name: x for name, x in (takes | given).items() if x is not None}
    if "draws" in given:
        given["draws"] = checks.integer("draws", given["draws"], low=20)
    on = ", ".join(f"{name} = {value!r}" for name, value in given.items())
    call = {name: given.pop(name) for name in _CALL if name in given}
    world = World(thing, seed=checks.seed(seed), call=call, **given)
    laws, held, broken = laws_of(world), [], []

    def tried(place: int, name: str, law: Callable, world: World) -> None:
        if broken and broken[0].startswith("settings: "):
            return
        try:
            with scope.engine():
                held.append(law(world.but(rng=np.random.default_rng([seed, place]))))
        except (ContractError, RuleError, FamilyError) as error:
            broken.append(f"{name}: {error}")
        except JaxelimError:
            raise
        except Exception as error:
            frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
            own = [frame.f_code.co_name for frame in frames
                   if type(frame.f_locals.get("self")) is type(thing)]  # fmt: skip
            broken.append(f"{name}: {([*own] or ['it'])[-1]} raised {in_words(error)}")

    by_parts([(law[0], partial(tried, i, *law)) for i, law in enumerate(laws)], progress)
    report = Report(repr(thing), f"{len(laws)} laws, {on}, seed = {seed}", tuple(held),
                    unseen, tuple(broken), tuple(world.rates))  # fmt: skip
    if broken:
        error = ContractError(f"{thing!r}: " + "\n".join(broken))
        error.report = report
        raise error
    return report


def by_parts(parts: Sequence[tuple[str, Callable[[], Any]]], show: Any) -> None:
    """Do parts of some work, in order, with one line of progress over all.

    A call in a part that would show progress by itself shows none. Parts are pairs of a name
    and a function without arguments.
    """
    refuse_other(show)
    with Progress(show, len(parts), "part") as line:
        token = INSIDE.set(True)
        try:
            for number, (name, part) in enumerate(parts):
                line.update(number, name=name)
                part()
            line.update(len(parts))
        finally:
            INSIDE.reset(token)
