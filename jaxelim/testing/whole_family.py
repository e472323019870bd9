"""The check of a reward family: its laws, its settings and whole runs."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxelim import checks, families, scope
from jaxelim.contracts import Family
from jaxelim.errors import ArgumentError, JaxelimError, in_words
from jaxelim.families import OneParameter, noise
from jaxelim.instances.instance import Instance
from jaxelim.testing import (
    draw_checks,
    evidence_checks,
    family_checks,
    mixture_checks,
    other_family_checks,
    source_checks,
)
from jaxelim.testing.report import ContractError, Report, lines_of, require
from jaxelim.testing.settings import check_docstring, check_repr
from jaxelim.testing.whole_runs import check_whole_runs

MEANS = "passed: each law below held on what was drawn; not shown: that other means keep them"
"""What a report of a family says, and what it does not."""


def check_family(
    family: Family, *, seed: int = 0, draws: int = 100_000, progress: Any = None
) -> Report:
    """Check a reward family: a subclass of `OneParameter`, or one with methods of its own.

    d(x, y), the loss of moving mean x to y, is 0 for x = y alone, else above. Its slope in y is
    (y - x)/V(y), V(y) one over its second derivative at y. A pair costs the numerical minimum over
    the common mean. Bounds invert d. Rewards are finite, in the range, of mean mu and variance
    V(mu). All of this holds at ends of the range that are means. Statistics keep counts, sums and
    means. The evidence is that of the losses; its gradient is that of its values. Whole runs with
    `Uniform`, the arms in several orders, have tau_full <= tau_selective <= tau_LLR, no more errors
    than delta allows, and are the same alone and in a batch.

    Rewards have the likelihood of d: dP_y/dP_mu(x) = exp(d(x, mu) - d(x, y)) has mean 1 over the
    draws of mean mu, for a y on each side. The y is the furthest for which the average of the draws
    is nearly normal.

    A family with `log_mixture`: each M_j is at most the likelihood ratio, its logarithm is
    convex as `convex_in` says, and it has mean 1 at most over rewards of the tested mean.

    A family that is no `OneParameter` has no V, and `low` and `high` of its own. Its rewards
    have mean mu; its evidence is of degree 1 in the weights, with gradients that are cuts; its
    intervals hold the means and grow with beta. Statistics and runs are checked as above.

    Means are drawn inside (low, high); those that `check` refuses are drawn again. An end
    is a mean unless `check` refuses it; then rewards may not be that end. What is drawn
    fails a right family by luck with probability at most 1e-6: the mean of n rewards is held by
    n d(mean, mu), their variance and likelihood ratios by seven standard errors.

    Args:
        family: the family.
        seed: of means, counts, noise and runs.
        draws: rewards drawn at each of five means, at least 1000.
        progress: as in `simulate`, over the parts of the check. A callable gets (parts
            over, parts, 0, seconds).

    Returns:
        A `Report`; it says which defects of the rewards would have been seen.

    Raises:
        ContractError: the first law that is broken, or a method that raises, in a sentence.
        ArgumentError: seed or draws is no such integer, or a bad `progress`.
    """
    seed, draws = checks.seed(seed), checks.integer("draws", draws, low=1000)
    lines = lines_of(_parts(family, seed, draws), progress)
    return Report(repr(family), tuple(lines), head=(f"tried: {draws} rewards a mean", MEANS))


def check_source(
    instance: Instance, *, seed: int = 0, draws: int = 20_000, progress: Any = None
) -> Report:
    """Check the source of an instance's rewards; `check_family` checks the family.

    First rewards are finite, allowed by the family, and have the mean of their arm, by seven
    standard errors. So do, exactly, the rewards of a run until an arm is used up. Whole runs
    with `Uniform` are as in `check_family`.

    Args:
        instance: one instance, with a source.
        seed, draws, progress: as in `check_family`.

    Raises:
        ContractError: the first law that is broken, or a method that raises, in a sentence.
        ArgumentError: no such instance, or as `check_family`.
    """
    if not isinstance(instance, Instance) or instance.batched or instance.source is None:
        raise ArgumentError("instance", instance, "one Instance(.., source=..)")
    seed, draws = checks.seed(seed), checks.integer("draws", draws, low=1000)
    parts: list[tuple[str, Callable[..., str]]] = [
        ("settings", source_checks.check_settings),
        ("nature or draw", partial(source_checks.check_draws, draws=draws)),
        ("a run", source_checks.check_runs),
    ]
    lines = lines_of(_seeded(parts, instance, seed, 0), progress)
    head = f"tried: {draws} rewards an arm", "passed: each law below held on what was drawn"
    return Report(repr(instance.source), tuple(lines), head=head)


def _parts(family: Any, seed: int, draws: int) -> list[tuple[str, Callable[[], str]]]:
    """The parts of the check of a family, with their names."""
    if isinstance(family, OneParameter) and family.exponential:
        parts = [
            ("loss", family_checks.check_loss),
            ("meet or reach", family_checks.check_pairs),
            ("nature or draw", partial(draw_checks.check_draws, draws=draws)),
            ("start or update", family_checks.check_update),
            ("the evidence", evidence_checks.check_evidence),
            ("a run", _check_family_runs),
        ]
        if family.has("log_mixture"):
            mixture = "log_mixture", partial(mixture_checks.check_mixture, draws=draws)
            parts = [*parts[:-1], mixture, parts[-1]]
    else:
        kinds = ", ".join(other_family_checks.METHODS)
        kinds = f"a OneParameter family, or one that defines {kinds}"
        fits = other_family_checks.complete(family) and not isinstance(family, OneParameter)
        require(fits, f"{family!r} is not {kinds}")
        parts = [
            ("nature or draw", partial(other_family_checks.check_draws, draws=draws)),
            ("start or update", family_checks.check_update),
            ("the evidence", evidence_checks.check_evidence),
            ("interval", evidence_checks.check_interval),
            ("a run", other_family_checks.check_runs),
        ]
        if family.has("log_mixture"):
            said = "log_mixture and the law of the rewards: not checked, but for a OneParameter"
            parts.insert(-1, ("log_mixture", lambda *_: said))
    settings = "settings", partial(_check_family_settings, family)
    return [settings, *_seeded(parts, family, seed, 1)]


def _seeded(
    parts: Sequence[tuple[str, Callable[..., str]]], checked: Any, seed: int, before: int
) -> list[tuple[str, Callable[[], str]]]:
    """The parts, each with a generator of its own; `before`: how many parts are before them."""

    def run(place: int, name: str, part: Callable[..., str]) -> str:
        try:
            with scope.engine():
                return part(checked, np.random.default_rng([seed, place]))
        except JaxelimError:
            raise
        except Exception as error:
            raise ContractError(f"{checked!r}: {name} raised {in_words(error)}") from error

    return [
        (name, partial(run, place, name, part))
        for place, (name, part) in enumerate(parts, start=before)
    ]


def _check_family_settings(family: Any) -> str:
    kind = type(family)
    own = vars(kind).get("__dataclass_params__")
    sentence = f"{kind.__name__} is no frozen dataclass: write @dataclasses.dataclass(frozen=True)"
    require(own is not None and own.frozen, sentence)
    check_repr(family)
    check_docstring(kind)
    good = isinstance(family.name, str) and family.name
    good = good and families.NAMES.get(family.name, kind) is kind
    require(good, f"name is {family.name!r}; rules know a family by it, so it has to be its own")
    known = tuple(noise.SAMPLERS)
    require(family.noise in known, f"noise is {family.noise!r}; it has to be one of {known}")
    require(family.low < family.high, f"no mean is between {family.low} and {family.high}")
    family_checks.inside(family, np.random.default_rng(0), 20)
    ends = " and ".join(f"{end:g}" for end in family_checks.ends(family)) or "none"
    means = f"means from {family.low:g} to {family.high:g}, ends included: {ends}"
    return f"a frozen dataclass; {means}"


def _spaced(family: Any) -> list[float]:
    """Four means that `check` allows, each at divergence 1/4 from the next."""
    first = float(np.median(family_checks.inside(family, np.random.default_rng(0), 9)))
    bounds = jax.jit(partial(family_checks.bounds, family))
    for side in (0, 1):
        means = [first]
        for _ in range(3):
            means.append(float(bounds(means[-1], 0.25)[side]))
        if family_checks.allowed(family, np.array(means)):
            return means
    require(False, f"check refuses means such as {means}")
    return means


def _check_family_runs(family: Any, rng: np.random.Generator) -> str:
    return check_whole_runs(family_checks.of(family, _spaced(family)), rng)
