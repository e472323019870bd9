"""The check of a sampling rule."""

from typing import Any

import jax
import numpy as np
from scipy import stats

from jaxelim import engine
from jaxelim.contracts import Problem, SamplingRule
from jaxelim.errors import RuleError, UnsupportedError
from jaxelim.instances.instance import Instance
from jaxelim.live import LiveRun
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
    - If it defines `predetermined`: arms that a live run gives at once, before their
      rewards, are the next pulls of the simulated run.
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
        first = natural_problems(rule)[0] if problem is None else problem
        lines.append(_check_stress(rule, first, stress, seed))
        given = type(rule).predetermined is not SamplingRule.predetermined
        if given and not rule.traits.uses_truth:
            on = easy_instance(first, rule.traits.structures[0]) if instance is None else instance
            lines.append(_check_batches(rule, first, on, delta, seed, ridge))
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
    cut = int(many.truncated.sum(-1).max())
    return [
        f"{where}: traced once, arms in range, alone = in a batch; "
        + _errors(int(errors.max()), cut, runs, delta, steps)
    ]


def _errors(errors: int, cut: int, runs: int, delta: float, steps: int) -> str:
    """What a number of errors and of runs that were cut off says, in words."""
    high = stats.beta.ppf(0.999, errors + 1, runs - errors)
    rate = f"rate below {high:.3f} with 99.9% confidence"
    if 2 * cut > runs:
        rate = "which says little: steps= lets more runs stop"
    return (
        f"{errors} errors in {runs} runs at delta = {delta}, {cut} of them cut off at {steps} "
        f"samples ({rate})"
    )


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


BATCH, BATCHED = 6, 300
"""Arms that a live run is asked for at once, and the samples of its run, at most."""


def _check_batches(rule, problem, instance, delta, seed, ridge) -> str:
    """Ask a live run for arms at once, and compare them with the simulated run's pulls."""
    common: dict[str, Any] = dict(
        delta=delta, stopping=natural_stopping(rule)[0], seed=seed, ridge=ridge
    )
    simulated = trace(instance, problem, rule, max_samples=BATCHED, **common)
    live = LiveRun(instance.arms, problem, rule, family=instance.family, **common)
    arms, s, longest = simulated.arms, 0, 0
    while s < simulated.samples:
        for size in range(min(BATCH, simulated.samples - s), 0, -1):
            try:
                batch = live.ask(size)
                break
            except UnsupportedError:  # rewards to come decide
                continue
        require(
            batch == arms[s : s + len(batch)].tolist(),
            f"predetermined: after {s} samples a live run gives arms {batch} at once, the "
            f"simulated run pulls {arms[s : s + len(batch)].tolist()}",
        )
        live.tell(batch, simulated.rewards[s : s + len(batch)])
        s, longest = s + len(batch), max(longest, len(batch))
    return f"arms given at once are the next pulls: up to {longest} of {s} samples"
