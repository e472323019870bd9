"""The check of a sampling rule."""

import warnings
from functools import partial
from typing import Any

import jax
import numpy as np
from scipy import stats

from jaxelim import engine
from jaxelim.contracts import Problem, SamplingRule
from jaxelim.errors import JaxelimError, RuleError, StarvationWarning
from jaxelim.instances.instance import Instance
from jaxelim.problems import BestArm, Thresholding, TopM
from jaxelim.simulation.api import simulate, trace
from jaxelim.simulation.experiment import Engine
from jaxelim.simulation.results.result import Result, correct_answer
from jaxelim.stopping.elimination import FullElimination, SelectiveElimination
from jaxelim.stopping.llr import LLR, Native
from jaxelim.testing.orders import NEAR, equal_rivals, near, orders
from jaxelim.testing.report import LUCK, ContractError, Report, lines_of, require, same_runs
from jaxelim.testing.settings import check_docstring, check_repr, run_by_run
from jaxelim.testing.waiting_checks import check_waiting

MEANS = (
    "passed: each law below held, and no more answers were wrong than delta allows; not shown: "
    "that the rule is delta-correct, on other instances or with another threshold than "
    "Heuristic()"
)
"""What a report of a rule says, and what it does not."""

FEW = 300
"""Most samples of the runs with near ties, beside two an arm."""

LITTLE = "so the rate says little: the rule seldom stops; try more steps=, or mend the rule"
"""What is said where most runs are cut off."""


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
    progress: Any = None,
) -> Report:
    """Check the laws of a sampling rule, and bound its error rate on a few instances.

    - It is traced once, and chooses arms in range.
    - A run alone equals the same run in a batch, for other lanes and chunks and under
      vmap. So nothing changes after the stop.
    - Its native test stops alone where it stops beside other stopping rules.
    - Where it is lanes last: runs that one lane takes to their ends are those of many.
    - `prepare` gives the same for another theta, unless the rule reads "truth".
    - Its numbers are finite where weights underflow and designs are nearly singular.
    - Where rewards wait, in batches and for a delay, a run alone equals the same run in a
      batch. A live run that gives several arms at once makes the pulls of `batch=`, and
      stops with it.
    - Its repr evaluates back, and its docstring's arguments equal its fields.
    - Wrong answers are rare, whichever stopping rule ends the runs. Of n = `runs` runs no
      more may be wrong than a rate of exactly delta exceeds with probability 1e-6. The
      runs are dealt to the instance's arms in other orders. So it is at delta, at
      delta/10, and at delta with gaps of a twentieth, for at most 300 samples. For best arm
      with independent arms so it is at delta where all rivals are equal, too.

    The report begins with a verdict and with what was tried. It bounds the error rate on
    these instances, with this threshold. It proves nothing of other instances. A run that
    is cut off counts as no error; the rate's line says so wherever one was, and so does the
    verdict, but for the gaps of a twentieth. The default instances have Gaussian rewards
    alone.

    Args:
        rule: the rule.
        problem: the problem of the runs; None: best arm, top 2 and thresholding, as far
            as the rule is defined for them.
        instance: the instance; None: an easy one of each structure that the rule is
            defined for, with Gaussian rewards. A batch is taken as it is, without other
            orders. For other rewards give an instance of that family.
        runs: n of each of the bounds.
        delta: error probability of those runs.
        steps: the cap on samples of a run.
        stress: samples of the run with underflowing weights and nearly
            singular designs.
        seed: of the noise.
        ridge: as in `simulate`; the stress run has 1.
        progress: as in `simulate`, over the parts of the check. A callable gets (parts
            over, parts, 0, seconds).

    Raises:
        ContractError: a law is broken; the message names it.
        ArgumentError: an argument that `simulate` refuses.
    """
    require(isinstance(rule, SamplingRule), f"{rule!r} is not a SamplingRule")
    problems = natural_problems(rule) if problem is None else [problem]
    structures = rule.traits.structures if instance is None else (instance.structure,)

    def on(of_problem: Problem, structure: str = structures[0]) -> Instance:
        return easy_instance(of_problem, structure) if instance is None else instance

    cut: list[tuple[int, int, str]] = []
    parts: list[Any] = [("settings", lambda: [check_repr(rule), check_docstring(type(rule))])]
    for of_problem in problems:
        for structure in structures:
            job = rule, of_problem, on(of_problem, structure)
            name = f"{of_problem!r}, {job[-1].name or structure}"
            parts.append((name, partial(_check_runs, *job, runs, delta, steps, seed, ridge, cut)))
    first = problems[0]
    alone = on(first).unbatched[0]
    parts.append(("extreme rewards", partial(_check_stress, rule, first, stress, seed)))
    rest = rule, first, alone, delta, seed, ridge
    if rule.traits.lanes_last:
        parts.append(("one lane", partial(_check_one_lane, *rest)))
    parts.append(("rewards that wait", partial(check_waiting, *rest)))
    try:
        lines = lines_of(parts, progress)
    except RuleError as error:
        fault = "a method breaks its contract" if error.arm is None else "arms out of range"
        raise ContractError(f"{fault}: {error}") from error
    tried = f"{', '.join(map(repr, problems))}; {' and '.join(structures)} arms"
    sizes = f"{runs} runs at delta = {delta:g}, {runs} at {delta / 10:g}"
    if near(first, on(first)) is not None:
        sizes += f", {runs} of near ties"
    if any(equal_rivals(one, on(one, structure)) for one in problems for structure in structures):
        sizes += f", {runs} with equal rivals"
    return Report(
        repr(rule),
        tuple(lines),
        verdict=_verdict(cut),
        head=(f"tried: {tried}; {_rewards(rule, alone, instance is None)}; of each {sizes}", MEANS),
    )


def _verdict(cut: list[tuple[int, int, str]]) -> str:
    """The verdict, by the runs that were cut off in each part, the runs, and what they are."""
    count, runs, what = max(cut, key=lambda part: part[0] / part[1], default=(0, 1, ""))
    return f"passed, but {count} of {runs} runs {what} were cut off" if count else "passed"


def _rewards(rule: SamplingRule, instance: Instance, chosen: bool) -> str:
    """The rewards that are tried, and how to try others."""
    said = f"{instance.family!r} rewards alone"
    if rule.traits.families == (instance.family.name,):
        return said
    other = "instance=je.Instance.unstructured([0.8, 0.5, 0.2], je.Bernoulli())"
    return f"{said} (others: {other if chosen else 'instance= with another family'})"


def _check_runs(rule, problem, instance, runs, delta, steps, seed, ridge, cut) -> list[str]:
    """The laws of runs; the runs that were cut off are added to `cut`, as of `_verdict`."""
    where = f"{problem!r}, {instance.name or instance.structure}"
    stopping = natural_stopping(rule)
    common: dict[str, Any] = dict(stopping=stopping, seed=seed, ridge=ridge)
    wide = Engine(lanes=16)

    def run_all(instances, delta, steps, seed) -> list[Result]:
        """The runs of each instance: other runs of the seed, so that no two share noise."""
        share = -(-runs // len(instances))
        taken = [np.arange(i * share, (i + 1) * share) for i in range(len(instances))]
        settings = {**common, "delta": delta, "max_samples": steps, "seed": seed}
        return [
            simulate(one, problem, rule, runs=its, engine=wide, **settings)
            for one, its in zip(instances, taken, strict=True)
        ]

    rotations, close = orders(problem, instance), near(problem, instance)
    before = set(engine.program.values())
    easy = run_all(rotations, delta, steps, seed)
    small = run_all(rotations, delta / 10, steps, seed + 1)
    hard, few = [], min(steps, FEW + 2 * instance.K)
    if close is not None:
        hard = run_all(orders(problem, close), delta, few, seed + 2)
    rivals, equal = equal_rivals(problem, instance), []
    if rivals is not None:
        equal = run_all(orders(problem, rivals), delta, steps, seed + 3)
    fresh = set(engine.program.values()) - before
    require(all(program.traces == 1 for program in fresh), f"{where}: traced more than once")
    many = easy[0]
    ks = many.pulls.shape[-1]
    for one in (*easy, *small, *hard, *equal):
        require(
            np.array_equal(one.pulls.sum(-1), one.samples) and (one.pulls >= 1).all(),
            f"{where}: arms out of range 0 .. {ks - 1}",
        )
    here = many.samples.shape[-1]
    one, some = here // 2, np.arange(min(here, 40))
    common |= dict(delta=delta, max_samples=steps)
    alone = simulate(
        rotations[0],
        problem,
        rule,
        runs=[one],
        engine=Engine(lanes=8, chunk=64, devices=1),
        **common,
    )
    same_runs(many, alone, f"{where}: a run alone and the same run in a batch", np.array([one]))
    if rule.traits.lanes_last:
        by_run = run_by_run(rule)
        vmapped = simulate(
            rotations[0], problem, by_run, runs=some, engine=Engine(lanes=16), **common
        )
        same_runs(many, vmapped, f"{where}: lanes-last and vmapped forms", some)
    if len(stopping) > 1 and "native" in rule.traits.stopping:
        own: Any = {**common, "stopping": Native()}
        native = simulate(rotations[0], problem, rule, runs=some, engine=wide, **own)
        what = f"{where}: the native stop alone and beside other stopping rules"
        same_runs(many, native, what, some, slice(-1, None))
    answers = len({correct_answer(one, problem).tobytes() for one in rotations})
    said = f"{where}: traced once, arms in range, alone = in a batch; {len(rotations)} orders"
    lines = [f"{said} of the arms with {answers} different right answers"]
    if answers == 1:
        lines[0] += ": a rule that always answers the same is not seen"
    for results, level, words in (
        (easy, delta, ""), (small, delta / 10, ""), (equal, delta, "equal rivals"),
    ):  # fmt: skip
        if results:
            numbers = _count(f"{where}{words and ', '}{words}", results, level)
            lines.append(f"  {words}{words and ': '}{_errors(*numbers, level, steps)}")
            cut.append((*numbers[1:], f"with {words}" if words else f"at delta = {level:g}"))
    if hard:
        words = _errors(*_count(f"{where}, gaps times {NEAR}", hard, delta), delta, few, False)
        lines.append(f"  gaps times {NEAR}: {words}")
    if "truth" not in rule.traits.reads:
        _check_prepared(rule, problem, instance, ridge)
    return lines


def _count(where: str, results: list[Result], delta: float) -> tuple[int, int, int]:
    """Errors and cut runs of the stopping rule that has most, and runs, of all instances.

    Raises:
        ContractError: more errors than a rate of delta has, of all runs or of an instance's.
    """
    wrong = np.stack([(result.stopped & ~result.correct).sum((1, 2)) for result in results])
    share = results[0].samples[0].size
    names = [stop.name for stop in results[0].stopping]
    for errors, n, on, luck in (
        (wrong.sum(0), share * len(results), "", LUCK),
        (wrong.max(0), share, " with one order of the arms", LUCK / len(results)),
    ):
        limit, most = int(stats.binom.isf(luck, n, delta)), int(errors.argmax())
        require(
            errors[most] <= limit,
            f"{where}: stopped by {names[most]}, {errors[most]} errors in {n} runs at delta = "
            f"{delta:g}{on}; at most {limit} allowed",
        )
    cut = max(sum(result.truncated[i].sum() for result in results) for i in range(len(names)))
    return int(wrong.sum(0).max()), int(cut), share * len(results)


def _errors(errors: int, cut: int, runs: int, delta: float, steps: int, stops: bool = True) -> str:
    """What a number of errors and of runs that were cut off says, in words.

    `stops`: whether the rule should stop within so many steps.
    """
    said = f"{errors} errors in {runs} runs at delta = {delta:g}, {cut} of them cut off at {steps}"
    said += f" samples (rate below {_below(errors, runs)} with 99.9% confidence"
    if cut:
        ended = runs - cut
        said += "; runs that were cut off count as no error: "
        below = f"of the {ended} that ended below {_below(errors, ended)}"
        of = below if ended else "none ended, which shows nothing"
        said += of
    if 2 * cut > runs and stops:
        said += f"; {LITTLE}"
    return f"{said})"


def _below(errors: int, runs: int) -> str:
    """An upper bound on a rate, wrong with probability 0.001."""
    return f"{stats.beta.ppf(0.999, errors + 1, max(runs - errors, 1e-9)):.3f}"


def _check_prepared(rule: SamplingRule, problem: Problem, instance: Instance, ridge: Any) -> None:
    """Prepare for another theta too: what a rule may not know must not matter."""
    alone = instance.unbatched[0]
    theta = alone.theta[::-1] if alone.structure == "unstructured" else -alone.theta
    try:
        other = Instance(alone.arms, theta, None, alone.name, alone.family)
    except JaxelimError:  # out of the range of means, or recorded rewards
        return
    both = [jax.tree.leaves(rule.prepare(two, problem, ridge)) for two in (alone, other)]
    same = len(both[0]) == len(both[1]) and all(map(np.array_equal, *both))
    require(same, "prepare depends on theta, and the rule's traits do not read \"truth\"")


def _never(t, delta):
    return 1e30 + 0 * (t + delta)


def _check_stress(rule, problem, steps, seed) -> str:
    """Run with rewards that make exponential weights underflow, and nearly equal arms."""
    scale = 1e4
    if rule.traits.structures == ("unstructured",):
        instance = Instance(np.eye(4), scale * np.array([1.0, 0.5, -0.5, -1.0]))
    else:
        arms = np.array([[1.0, 0.0], [1.0, 1e-6], [0.3, -1e-6], [-0.5, 2e-6]])
        instance = Instance(arms, scale * np.array([1.0, 3.0]))
    stopping = LLR() if "llr" in rule.traits.stopping else Native()
    with jax.debug_nans(True), warnings.catch_warnings():
        warnings.simplefilter("ignore", StarvationWarning)  # no test ends this run
        try:
            run = trace(
                instance,
                problem,
                rule,
                stopping=stopping,
                threshold=_never,
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


SINGLE, LONGEST_SINGLE = 16, 600
"""Runs that one lane takes to their ends, and their samples, at most."""


def _check_one_lane(rule, problem, instance, delta, seed, ridge) -> str:
    """Compare runs in many lanes with those that one lane takes after some steps."""
    common: dict[str, Any] = dict(
        runs=SINGLE, delta=delta, max_samples=LONGEST_SINGLE, seed=seed, ridge=ridge,
        stopping=natural_stopping(rule),
    )  # fmt: skip
    many, single = (
        simulate(instance, problem, rule, **common,
                 engine=Engine(lanes=16, chunk=32, devices=1, shrink=shrink))
        for shrink in (False, True)
    )  # fmt: skip
    same_runs(many, single, "in many lanes, and in one")
    return f"one lane takes {SINGLE} runs as many lanes do, for at most {LONGEST_SINGLE} samples"
