"""Checks that certify a sampling rule, a problem, a reward family or a threshold.

Each check returns a `Report` that prints as text. It raises `ContractError` at the
first law that is broken.
"""

import dataclasses
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from jaxelim import checks, engine, families, problems, sampling, scope
from jaxelim.contracts import Family, Problem, SamplingRule
from jaxelim.contracts.views import Snapshot
from jaxelim.errors import JaxelimError, RuleError, UnsupportedError, in_words
from jaxelim.families import OneParameter, noise
from jaxelim.families.designs import SquareDesign
from jaxelim.families.gaussian import LinearGaussian, LinearStatistics
from jaxelim.instances.instance import Instance
from jaxelim.lanes import LaneOps
from jaxelim.problems import BestArm, Thresholding, TopM
from jaxelim.problems.lanewise import in_lanes
from jaxelim.simulation.api import Engine, simulate, trace
from jaxelim.simulation.result import Result
from jaxelim.stopping import deviations, thresholds
from jaxelim.stopping.elimination import FullElimination, SelectiveElimination
from jaxelim.stopping.llr import LLR, Native
from jaxelim.testing import family_checks, other_family_checks
from jaxelim.testing.report import LUCK, ContractError, Report, require
from jaxelim.testing.threshold_checks import (
    ErrorRate,
    ThresholdReport,
    check_threshold,
    hard_instance,
)


def _check_repr(thing: Any) -> str:
    import jaxelim

    names = {
        **vars(thresholds),
        **vars(deviations),
        **vars(problems),
        **vars(sampling),
        **vars(jaxelim),
        type(thing).__name__: type(thing),
    }
    try:
        back = eval(repr(thing), dict(names))
    except Exception as error:
        raise ContractError(
            f"repr does not evaluate back: {thing!r} raises {type(error).__name__}: {error}"
        ) from error
    require(
        back == thing and hash(back) == hash(thing),
        f"repr {thing!r} evaluates to something else, or hashes otherwise",
    )
    return "repr evaluates back"


def _check_docstring(kind: type) -> str:
    doc = kind.__doc__ or ""
    require(doc.strip(), f"{kind.__name__} has no docstring")
    described = doc.split("Args:", 1)[1] if "Args:" in doc else ""
    described = re.split(r"^\s*(?:Raises|Returns|Examples?):", described, flags=re.M)[0]
    said = set(re.findall(r"^\s+(\w+): ", described, re.M))
    fields = {field.name for field in dataclasses.fields(kind) if field.init}
    require(
        said == fields,
        f"the docstring of {kind.__name__} describes {sorted(said)}, its fields are "
        f"{sorted(fields)}",
    )
    return "docstring arguments equal the signature"


def _same(one: Result, other: Result, what: str, take: Any = slice(None)) -> None:
    for name in ("samples", "stopped", "answer", "pulls"):
        equal = np.array_equal(getattr(one, name)[:, :, take], getattr(other, name))
        require(equal, f"{name} differ: {what}")


def easy_instance(problem: Problem, structure: str) -> Instance:
    """A small instance of a structure, on which runs of the problem are short."""
    means = np.array([1.2, 0.5, -0.6, -1.0])
    if structure == "unstructured":
        return Instance(np.eye(4), means, name="easy, unstructured")
    angles = np.array([0.1, 0.9, 2.2, 3.5, 4.4])
    return Instance(np.stack([np.cos(angles), np.sin(angles)], 1), [1.5, 0.5], name="easy, linear")


def natural_problems(rule: SamplingRule) -> list[Problem]:
    """Best arm, top 2 and thresholding, as far as the rule is defined for them."""
    return [
        problem
        for problem in (BestArm(), TopM(2), Thresholding())
        if rule.traits.defined_for(problem.name)
    ]


def natural_stopping(rule: SamplingRule) -> tuple:
    """All stopping rules that the sampling rule allows."""
    known = {
        "llr": LLR(),
        "selective": SelectiveElimination(),
        "full": FullElimination(),
        "native": Native(),
    }
    return tuple(known[name] for name in rule.traits.stopping)


def check_sampling_rule(
    rule: SamplingRule,
    problem: Problem | None = None,
    instance: Instance | None = None,
    *,
    runs: int = 400,
    delta: float = 0.1,
    steps: int = 3000,
    stress: int = 20_000,
    seed: int = 0,
    ridge: float | None = None,
) -> Report:
    """Certify that a sampling rule keeps the laws on which the engine and users rely.

    - It is traced once, and chooses arms in range.
    - A run alone equals the same run in a batch, for other lanes and chunks and under
      vmap. So nothing changes after the stop.
    - Its numbers are finite where weights underflow and designs are nearly singular.
    - Its repr evaluates back, and its docstring's arguments equal its fields.
    - It is delta-correct empirically. Of n = `runs` runs no more may end in errors than
      a rate of exactly delta exceeds with probability 1e-6.

    Args:
        rule: the rule.
        problem: the problem of the runs; None: best arm, top 2 and thresholding, as far
            as the rule is defined for them.
        instance: the instance; None: an easy one of each structure that the rule is
            defined for.
        runs: n of the delta-correctness check.
        delta: error probability of that check.
        steps: the cap on samples of a run.
        stress: samples of the run with underflowing weights and nearly
            singular designs.
        seed: of the noise.
        ridge: as in `simulate`; the stress run has 1.

    Raises:
        ContractError: a law is broken; the message names it.
    """
    require(isinstance(rule, SamplingRule), f"{rule!r} is not a SamplingRule")
    lines = [_check_repr(rule), _check_docstring(type(rule))]
    try:
        for one in natural_problems(rule) if problem is None else [problem]:
            for structure in rule.traits.structures if instance is None else [instance.structure]:
                on = easy_instance(one, structure) if instance is None else instance
                lines += _check_runs(rule, one, on, runs, delta, steps, seed, ridge)
        lines.append(
            _check_stress(
                rule, natural_problems(rule)[0] if problem is None else problem, stress, seed
            )
        )
    except RuleError as error:
        fault = "a method breaks its contract" if error.arm is None else "arms out of range"
        raise ContractError(f"{fault}: {error}") from error
    return Report(repr(rule), tuple(lines))


def _check_runs(rule, problem, instance, runs, delta, steps, seed, ridge) -> list[str]:
    where = f"{problem!r}, {instance.name or instance.structure}"
    stopping = natural_stopping(rule)
    common: dict[str, Any] = dict(
        delta=delta, max_samples=steps, stopping=stopping, seed=seed, ridge=ridge
    )
    before = set(engine.program.values())
    many = simulate(instance, problem, rule, runs=runs, engine=Engine(lanes=16), **common)  # type: ignore[arg-type]
    simulate(
        instance,
        problem,
        rule,
        runs=runs,
        engine=Engine(lanes=16),
        **{**common, "seed": seed + 1, "delta": delta / 2},
    )
    fresh = set(engine.program.values()) - before
    require(all(program.traces == 1 for program in fresh), f"{where}: traced more than once")
    ks = many.pulls.shape[-1]
    require(
        np.array_equal(many.pulls.sum(-1), many.samples) and (many.pulls >= 1).all(),
        f"{where}: arms out of range 0 .. {ks - 1}",
    )
    one, some = runs // 2, np.arange(min(runs, 40))
    alone = simulate(
        instance, problem, rule, runs=[one], engine=Engine(lanes=8, chunk=64, devices=1), **common
    )
    _same(many, alone, f"{where}: a run alone and the same run in a batch", np.array([one]))
    if rule.traits.lanes_last:
        vmapped = simulate(
            instance, problem, rule, runs=some, engine=Engine(lanes=16, vmapped=True), **common
        )
        _same(many, vmapped, f"{where}: lanes-last and vmapped forms", some)
    errors = (many.stopped & ~many.correct).sum(-1)
    limit = int(stats.binom.isf(LUCK, runs, delta))
    require(
        (errors <= limit).all(),
        f"{where}: {errors.max()} errors in {runs} runs at delta = {delta}; at most {limit} "
        "allowed",
    )
    high = stats.beta.ppf(0.999, errors.max() + 1, runs - errors.max())
    return [
        f"{where}: traced once, arms in range, alone = in a batch; "
        f"{errors.max()} errors in {runs} runs at delta = {delta} "
        f"(rate below {high:.3f} with 99.9% confidence; {int(many.truncated.sum())} cut off)"
    ]


def _check_stress(rule, problem, steps, seed) -> str:
    """Run with rewards that make exponential weights underflow, and nearly equal arms."""
    scale = 1e4
    if rule.traits.structures == ("unstructured",):
        instance = Instance(np.eye(4), scale * np.array([1.0, 0.5, -0.5, -1.0]))
    else:
        arms = np.array([[1.0, 0.0], [1.0, 1e-6], [0.3, -1e-6], [-0.5, 2e-6]])
        instance = Instance(arms, scale * np.array([1.0, 3.0]))
    never = lambda t, delta: 1e30 + 0 * (t + delta)  # noqa: E731
    stopping = LLR() if "llr" in rule.traits.stopping else Native()
    with jax.debug_nans(True):
        try:
            run = trace(
                instance,
                problem,
                rule,
                stopping=stopping,
                threshold=never,
                max_samples=steps,
                seed=seed,
                ridge=1.0,
            )
        except FloatingPointError as error:
            raise ContractError(
                f"{rule!r} made a NaN under rewards of {scale:g} and nearly singular designs: "
                f"{error}"
            ) from error
    require(
        ((run.arms >= 0) & (run.arms < instance.K)).all(),
        "an arm out of range under nearly singular designs",
    )
    return (
        f"finite over {run.samples} samples with rewards of {scale:g} and nearly singular designs"
    )


def check_problem(
    problem: Problem, instance: Instance | None = None, *, draws: int = 300, seed: int = 0
) -> Report:
    """Certify that a problem's answers, pieces and set of pieces agree.

    - For random theta and lambda with i = answer(theta), the public answer of lambda
      differs from that of theta exactly where lambda lies in a piece of i. (With
      `shared_answers`: only where it does.)
    - Margins, norms and products of the engine's shape equal those of `half_spaces`.
    - In lanes every method gives the results of one run.
    - The set of pieces is full at first. It loses the dropped pieces and no others of
      that answer, and never grows.
    - Full elimination drops at least what selective elimination does.
    - Once all pieces of an answer are dropped, the set is settled on that answer.

    Args:
        problem: the problem.
        instance: gives the arms; None: five arms in three dimensions.
        draws: number of pairs of theta and lambda.
        seed: of the draws.

    Raises:
        ContractError: a law is broken; the message names it.
    """
    rng = np.random.default_rng(seed)
    arms = rng.normal(size=(5, 3)) if instance is None else np.asarray(instance.arms)
    with scope.engine():
        _check_pieces(problem, arms, draws, rng)
        try:
            sets = _check_set(problem, arms, max(draws // 10, 5), rng)
        except UnsupportedError:
            sets = 0
    lines = [
        f"{draws} draws: another answer exactly inside a piece; "
        "margins, norms, products as half_spaces has them; lanes agree with one run"
    ]
    if sets:
        lines.append(f"{sets} walks of its set of pieces: drops what is refuted, and never grows")
    return Report(repr(problem), tuple(lines))


def _snapshot(problem: Problem, arms: np.ndarray, theta: Any, v_inv: Any, t: Any) -> Snapshot:
    """The snapshot of one run, theta [d], or of lanes, theta [d, B]."""
    k, lanes = len(arms), theta.shape[1:]
    phi = jnp.asarray(arms)
    family = LinearGaussian(form="square", keeps_theta=True)
    space = family.space(LaneOps(), phi, problem.constants())
    means = space.lanes.dot(phi, theta)
    g = jnp.einsum("kd,de...,ke->k...", phi, v_inv, phi, precision="highest")
    stats = LinearStatistics(
        t=t,
        counts=jnp.ones((k, *lanes)),
        means=means,
        reward_sums=None,
        design=SquareDesign(g, v_inv),
        theta_hat=theta,
        lost=None,
        products=None,
    )
    return Snapshot.of(family, in_lanes(problem) if lanes else problem, space, stats)


def _check_pieces(problem: Problem, arms: np.ndarray, draws: int, rng: np.random.Generator):
    """Compare answers with pieces, and the engine's shape with `half_spaces`."""
    d = arms.shape[1]

    def look(theta, v_inv):
        seen = _snapshot(problem, arms, theta, v_inv, jnp.int32(9))
        linear: Any = seen.evidence
        each = jnp.arange(linear.margin.shape[0], dtype=jnp.int32)
        products = jax.vmap(linear.along)(each)
        return seen.public, seen.shape.exists, linear.margin, linear.norm, products

    def in_many(theta, v_inv):
        t = jnp.full(theta.shape[1:], 9, jnp.int32)
        seen = _snapshot(problem, arms, theta, v_inv, t)
        linear: Any = seen.evidence
        return seen.public, seen.shape.exists, linear.margin, linear.norm

    look, in_many = jax.jit(look), jax.jit(in_many)
    order = lambda rows: rows[np.lexsort(np.round(rows, 9).T)]  # noqa: E731
    for _ in range(draws):
        theta, other = rng.normal(size=(2, d))
        directions, offsets = problem.half_spaces(arms, theta)
        inside = bool(np.any(directions @ other <= offsets))
        root = rng.normal(size=(d, d + 2))
        v_inv = np.linalg.inv(root @ root.T)
        one, two = look(theta, v_inv), look(other, v_inv)
        differs = not np.array_equal(one[0], two[0])
        wrong = differs and not inside if problem.shared_answers else inside != differs
        where = f"theta = {theta}, lambda = {other}"
        require(not wrong, f"{where}: in a piece is {inside}, another answer is {differs}")
        _, exists, margin, norm, products = (np.asarray(x) for x in one)
        require(exists.any(), f"theta = {theta}: its answer has no piece")
        ours = order(np.column_stack([margin, norm, products])[exists])
        norms = np.einsum("pd,de,pe->p", directions, v_inv, directions)
        columns = [directions @ theta - offsets, norms, directions @ v_inv @ arms.T]
        theirs = order(np.column_stack(columns))
        same = ours.shape == theirs.shape and np.allclose(ours, theirs, atol=1e-7)
        require(same, f"theta = {theta}: margins, norms or products are not those of half_spaces")
        pair = np.stack([theta, other], 1), np.stack([v_inv, v_inv], 2)
        for name, x, y, z in zip(
            ("public", "exists", "margins", "norms"), one, two, in_many(*pair), strict=False
        ):
            equal = np.allclose(np.stack([x, y], -1), z, rtol=1e-9, atol=1e-9)
            require(equal, f"{where}: {name} in lanes differ from those of one run")


def _check_set(problem: Problem, arms: np.ndarray, walks: int, rng: np.random.Generator) -> int:
    """Check the laws of the set of pieces, on random refutations of a few answers each."""
    d = arms.shape[1]
    v_inv = np.eye(d)[..., None]
    # A group of half-spaces is dropped when all of them are refuted.
    grouped = problem.times_axes == ("answer_index", "piece")

    def at(theta):
        return _snapshot(problem, arms, theta[:, None], v_inv, jnp.array([9], jnp.int32))

    start = jax.jit(lambda theta: at(theta).problem.pieces(at(theta)))
    look = jax.jit(lambda pieces, theta: (
        pieces.active(at(theta)), pieces.active_count(at(theta)), at(theta).shape.exists
    ))  # fmt: skip
    drop = jax.jit(lambda pieces, theta, refuted: pieces.drop(at(theta), refuted))

    @jax.jit
    def eliminated(pieces, theta, beta):
        seen = at(theta)
        refuted = seen.shape.exists & seen.evidence.refuted(beta)
        return pieces.drop(seen, refuted), pieces.drop_all(seen, beta)

    @jax.jit
    def ended(pieces, theta):
        seen = at(theta)
        both = [(pieces.settled(seen, full), pieces.verdict(seen, full)) for full in (False, True)]
        return both, seen.public

    for _ in range(walks):
        thetas = rng.normal(size=(3, d))
        pieces = start(thetas[0])
        for theta in thetas:
            active, active_count, exists = (np.asarray(x) for x in look(start(theta), theta))
            require(np.array_equal(active, exists), "the full set lacks a piece of an answer")
            require(
                active_count == exists.sum(), "active_count is not the number of active pieces"
            )
        for _ in range(6):
            theta = thetas[rng.integers(3)]
            before = [np.asarray(look(pieces, one)[0]) for one in thetas]
            exists = np.asarray(look(pieces, theta)[2])
            refuted = exists & (rng.random(exists.shape) < 0.3)
            pieces = drop(pieces, theta, refuted)
            was = before[int(np.argmax((thetas == theta).all(1)))]
            kept = np.asarray(look(pieces, theta)[0])
            require(not (was & ~refuted & ~kept).any(), "drop loses a piece that is not refuted")
            beta = np.array([np.quantile(rng.random(4), 0.5) * 3])
            few, more = eliminated(pieces, theta, beta)
            of_few, of_more = (np.asarray(look(one, theta)[0]) for one in (few, more))
            require(
                not (of_more & ~of_few).any(), "full elimination keeps a piece that selective drops"
            )
            pieces = few
            after = [np.asarray(look(pieces, one)[0]) for one in thetas]
            grown = any((y & ~x).any() for x, y in zip(before, after, strict=True))
            require(not grown, "the set grows")
        theta = thetas[0]
        full = start(theta)
        exists = np.asarray(look(full, theta)[2])
        some = exists & (rng.random(exists.shape) < 0.5)
        left = np.asarray(look(drop(full, theta, some), theta)[0])
        require(not (left & some).any() or grouped, "drop leaves a piece that is refuted")
        done = drop(full, theta, exists)
        for settled, verdict in ended(done, theta)[0]:
            require(settled, "all pieces of an answer are dropped, and the set is not settled")
            right = np.array_equal(verdict, ended(done, theta)[1])
            require(right, "all pieces of an answer are dropped, and the verdict is another")
        require(not ended(full, theta)[0][0][0], "the full set is settled")
    return walks


def check_family(family: Family, *, seed: int = 0, draws: int = 100_000) -> Report:
    """Certify a reward family: a subclass of `OneParameter`, or one with methods of its own.

    d(x, y) >= 0, 0 for x = y alone, and dd/dy = (y - x)/V(y), by differences. A pair costs the
    numerical minimum over the common mean, a level n d. Bounds invert d, from brackets at or beyond
    them. Rewards are finite, in the range, of mean mu and variance V(mu). All of this holds at ends
    of the range that are means. Statistics keep counts, sums and means. The evidence's gradient is
    that of its values in the weights. Whole runs with `Uniform` have tau_full <= tau_selective <=
    tau_LLR, no more errors than delta allows, and are the same alone and in a batch.

    A family that is no `OneParameter` has no d and no V, and `low` and `high` of its own.
    Its rewards have mean mu; its evidence is of degree 1 in the weights, with gradients
    that are cuts; its intervals hold the means and grow with beta. Statistics and runs
    are checked as above.

    Means are drawn inside (low, high); those that `check` refuses are drawn again. An end
    is a mean unless `check` refuses it; then rewards may not be that end. What is drawn
    fails a right family by luck with probability at most 1e-6: the mean of n rewards is held by
    n d(mean, mu), their variance by seven standard errors.

    Args:
        family: the family.
        seed: of means, counts, noise and runs.
        draws: rewards drawn at each of five means, at least 1000.

    Returns:
        A `Report`; it says which defects of the rewards would have been seen.

    Raises:
        ContractError: the first law that is broken, or a method that raises, in a sentence.
        ArgumentError: seed or draws is no such integer.
    """
    seed, draws = checks.seed(seed), checks.integer("draws", draws, low=1000)
    if not isinstance(family, OneParameter):
        return _check_other_family(family, seed, draws)
    parts: tuple[tuple[str, Callable[..., str]], ...] = (
        ("divergence or variance", family_checks.check_divergence),
        ("pair or level", family_checks.check_cost),
        ("bracket", family_checks.check_bounds),
        ("nature or draw", partial(family_checks.check_draws, draws=draws)),
        ("start or update", family_checks.check_update),
        ("the evidence", family_checks.check_gradient),
        ("a run", _check_family_runs),
    )
    return _checked_by(parts, family, seed)


def _check_other_family(family: Any, seed: int, draws: int) -> Report:
    """`check_family` for a family that is no `OneParameter`."""
    kinds = f"a OneParameter family, or one that defines {', '.join(other_family_checks.METHODS)}"
    require(other_family_checks.complete(family), f"{family!r} is not {kinds}")
    parts = (
        ("nature or draw", partial(other_family_checks.check_draws, draws=draws)),
        ("start or update", family_checks.check_update),
        ("the evidence", other_family_checks.check_evidence),
        ("interval", other_family_checks.check_interval),
        ("a run", other_family_checks.check_runs),
    )
    return _checked_by(parts, family, seed)


def _checked_by(parts: Any, family: Any, seed: int) -> Report:
    """The report of the parts, pairs of a name and a check."""
    lines = [_check_family_settings(family)]
    for name, part in parts:
        rng = np.random.default_rng([seed, len(lines)])
        try:
            with scope.engine():
                lines.append(part(family, rng))
        except JaxelimError:
            raise
        except Exception as error:
            raise ContractError(f"{family!r}: {name} raised {in_words(error)}") from error
    return Report(repr(family), tuple(lines))


def _check_family_settings(family: Any) -> str:
    kind = type(family)
    own = vars(kind).get("__dataclass_params__")
    sentence = f"{kind.__name__} is no frozen dataclass: write @dataclasses.dataclass(frozen=True)"
    require(own is not None and own.frozen, sentence)
    _check_repr(family)
    _check_docstring(kind)
    good = isinstance(family.name, str) and family.name
    good = good and families.known().get(family.name, kind) is kind
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
    bounds = jax.jit(family.bounds)
    for side in (0, 1):
        means = [first]
        for _ in range(3):
            means.append(float(bounds(jnp.asarray(means[-1]), jnp.asarray(0.25))[side]))
        if family_checks.allowed(family, np.array(means)):
            return means
    require(False, f"check refuses means such as {means}")
    return means


def _check_family_runs(family: Any, rng: np.random.Generator) -> str:
    runs, delta, cap = 40, 0.1, 3000
    means = _spaced(family)
    given: Any = dict(
        delta=delta, max_samples=cap, seed=int(rng.integers(2**31)),
        stopping=(LLR(), SelectiveElimination(), FullElimination()),
        engine=Engine(lanes=16, devices=1),
    )  # fmt: skip
    job = family_checks.of(family, means), BestArm(), sampling.Uniform()
    many = simulate(*job, runs=runs, **given)
    one = runs // 2
    alone = simulate(*job, runs=[one], **given)
    _same(many, alone, "a run alone and the same run in a batch", np.array([one]))
    llr, selective, full = many.samples[:, 0]
    family_checks.law(
        (full <= selective) & (selective <= llr),
        "a run has tau_full = {full}, tau_selective = {selective}, tau_LLR = {llr}",
        full=full, selective=selective, llr=llr,
    )  # fmt: skip
    errors = int((many.stopped & ~many.correct).sum(-1).max())
    limit = int(stats.binom.isf(LUCK / 10, runs, delta))
    sentence = f"{errors} errors in {runs} runs at delta = {delta}; at most {limit} allowed"
    require(errors <= limit, sentence)
    return (
        f"{runs} runs with Uniform, {int(many.stopped[0].sum())} of them stopped within {cap} "
        "samples: tau_full <= tau_selective <= tau_LLR, alone = in a batch, "
        f"{errors} errors at delta = {delta}"
    )


__all__ = [
    "ContractError", "ErrorRate", "Report", "ThresholdReport", "check_family", "check_problem",
    "check_sampling_rule", "check_threshold", "hard_instance",
]  # fmt: skip
