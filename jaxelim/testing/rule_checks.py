"""The check of a sampling rule."""

from typing import Any

import jax
import numpy as np
from scipy import stats

from jaxelim import engine
from jaxelim.contracts import Problem, SamplingRule
from jaxelim.errors import RuleError
from jaxelim.instances.instance import Instance
from jaxelim.problems import BestArm, Thresholding, TopM
from jaxelim.simulation.api import Engine, simulate, trace
from jaxelim.stopping.elimination import FullElimination, SelectiveElimination
from jaxelim.stopping.llr import LLR, Native
from jaxelim.testing.report import LUCK, ContractError, Report, require, same_runs
from jaxelim.testing.settings import check_docstring, check_repr


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
    lines = [check_repr(rule), check_docstring(type(rule))]
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
    same_runs(many, alone, f"{where}: a run alone and the same run in a batch", np.array([one]))
    if rule.traits.lanes_last:
        vmapped = simulate(
            instance, problem, rule, runs=some, engine=Engine(lanes=16, vmapped=True), **common
        )
        same_runs(many, vmapped, f"{where}: lanes-last and vmapped forms", some)
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
