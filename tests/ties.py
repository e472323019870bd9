"""Counts runs that an option of `Engine` changes, on random instances where choices tie.

    python -m tests.ties [--minutes 120] [--instances 12] [--kinds ..] [--problems ..] [--rules ..]
                         [--options ..]

Every kind of instances meets every problem and rule that is defined for it. The runs of
each option are compared with those of the default layout: samples, pulls and answers.
Prints the counts of each rule and option, of each kind of instances and of each problem.
The exit status is 1 where an option changes a run and `ALLOWED` does not name it.

With 12 instances of each kind for each problem there are 324. Run it without XLA_FLAGS:
rounding is the compiler's.
"""

import os

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "2")
os.environ.setdefault("NPROC", "1")

import argparse
import contextlib
import dataclasses
import itertools
import sys
import time
import warnings
from collections.abc import Iterator, Sequence

import numpy as np

import jaxelim as je

ARMS, DIMENSIONS, TOP = 6, 3, 2
RUNS, LONGEST = 16, 300
PROBLEMS: tuple[je.Problem, ...] = (je.BestArm(), je.TopM(TOP), je.Thresholding(0.1))
DEFAULT = je.Engine(devices=1, shrink=False)
OPTIONS = {
    "form square": {"form": "square"},
    "form arms": {"form": "arms"},
    "form diagonal": {"form": "diagonal"},
    "vmapped": {"vmapped": True},
    "one lane": {"shrink": True, "chunk": 16},
    "lanes, chunk, devices": {"lanes": 48, "chunk": 20, "devices": 2},
}
RULES: tuple[je.SamplingRule, ...] = (
    je.LinGapE(), je.LinGIFA(), je.LinGame(), je.OptimisticLinGame(), je.FWS(), je.LazyTaS(),
    je.TrackAndStop(schedule=4), je.TrackAndStop(tracking="C", schedule=4),
    je.OptimisticTaS(schedule=4), je.Oracle(), je.Uniform(), je.RAGE(steps=500), je.XYAdaptive(),
    je.LUCB(), je.UGapE(), je.Racing(), je.EBTC(), je.TTUCB("ids"),
)  # fmt: skip
_SOLVES = ("LinGame", "FWS", "LazyTaS", "TrackAndStop", "OptimisticTaS", "RAGE", "XYAdaptive")
ALLOWED: dict[str, tuple[str, ...]] = {
    "form square": ("LinGapE", "LinGIFA", *_SOLVES),
    "form arms": ("LinGapE", "LinGIFA", *_SOLVES),
    "vmapped": (*_SOLVES, "UGapE"),
}
"""The rules whose runs an option may change, as definitions.md says in section 7."""
EXACT = ("LinGapE", "LinGIFA")
"""The rules whose runs no option changes where scores tie to the last digit."""


# Kinds of instances. Each is made of random arms [K, d] and theta [d].


def _random(rng: np.random.Generator, arms: int = ARMS, d: int = DIMENSIONS):
    return rng.normal(size=(arms, d)), rng.normal(size=d)


def _with_copy(rng: np.random.Generator, problem: je.Problem, d: int, shift: float):
    """One arm twice, `shift` apart; not one that would leave the answer open."""
    arms, theta = _random(rng, ARMS - 1, d)
    order = np.argsort(-(arms @ theta))
    again = {"best-arm": order[1], "top-m": order[0]}.get(problem.name, order[2])
    return np.concatenate([arms, arms[[again]] + shift * rng.normal(size=(1, d))]), theta


def independent(rng, problem):
    """As many arms as dimensions."""
    return je.Instance(*_random(rng, ARMS, ARMS))


def duplicated(rng, problem):
    """As many arms as dimensions, and one of them again."""
    return je.Instance(*_with_copy(rng, problem, ARMS - 1, 0.0))


def near(rng, problem):
    """Two arms 1e-8 apart."""
    return je.Instance(*_with_copy(rng, problem, DIMENSIONS, 1e-8))


def scaled(rng, problem):
    """One arm twice, and one coordinate 10^4 times as large."""
    arms, theta = _with_copy(rng, problem, DIMENSIONS, 0.0)
    scale = np.array([1e4, 1.0, 1.0])
    return je.Instance(arms * scale, theta / scale)


def integers(rng, problem):
    """Different features of -1, 0 and 1."""
    every = np.array(np.meshgrid(*[[-1.0, 0.0, 1.0]] * DIMENSIONS)).reshape(DIMENSIONS, -1).T
    every = every[np.abs(every).sum(1) > 0]
    while True:
        arms = rng.permutation(every)[:ARMS]
        if np.linalg.matrix_rank(arms) == DIMENSIONS:
            return je.Instance(arms, rng.normal(size=DIMENSIONS))


def groups(rng, problem):
    """The same features in each coordinate, as in linear-d10."""
    sizes = rng.uniform(0.5, 1.5, (ARMS // DIMENSIONS, 1, 1))
    return je.Instance((sizes * np.eye(DIMENSIONS)).reshape(ARMS, -1), rng.normal(size=DIMENSIONS))


def plain(rng, problem):
    """Random arms."""
    return je.Instance(*_random(rng))


def basis(rng, problem):
    """Unstructured, Gaussian."""
    return je.Instance.unstructured(rng.normal(size=ARMS))


def coins(rng, problem):
    """Unstructured, Bernoulli."""
    return je.Instance.unstructured(rng.uniform(0.05, 0.95, ARMS), je.Bernoulli())


KINDS = (independent, duplicated, near, scaled, integers, groups, plain, basis, coins)


# Runs.


@dataclasses.dataclass
class Count:
    """Runs and instances that were compared, and those that differ."""

    instances: int = 0
    differing: int = 0
    runs: int = 0
    changed: int = 0

    def add(self, runs: int, changed: int) -> None:
        """One more instance."""
        self.instances += 1
        self.differing += changed > 0
        self.runs += runs
        self.changed += changed

    def __str__(self) -> str:
        return f"{self.changed}/{self.runs}"


def simulated(instance, problem, rule, layout, **settings) -> np.ndarray:
    """Samples, pulls and answers of each run: [run, numbers]."""
    native = rule.traits.stopping == ("native",)
    usual = dict(delta=0.1, runs=RUNS, max_samples=LONGEST, seed=5,
                 stopping=je.Native() if native else je.LLR())  # fmt: skip
    found = je.simulate(instance, problem, rule, engine=layout, progress=False, **usual | settings)
    return np.concatenate([found.samples[0, 0, :, None], found.pulls[0, 0], found.answer[0, 0]], 1)


def changed(instance, problem, rule, options=OPTIONS, **settings) -> Iterator[tuple[str, int, int]]:
    """Each option that is allowed, with the number of runs and of those that it changes.

    Gives nothing where the rule is not defined for the problem or the instance.
    """
    try:
        known = simulated(instance, problem, rule, DEFAULT, **settings)
    except (je.errors.UnsupportedError, je.errors.TieError):
        return
    for name, option in options.items():
        try:
            found = simulated(
                instance, problem, rule, dataclasses.replace(DEFAULT, **option), **settings
            )
        except je.errors.ArgumentError as error:
            if error.argument != "form":
                raise
            continue
        yield name, len(known), int((found != known).any(1).sum())


def counted(kinds, problems, rules, instances: int, minutes: float, options=OPTIONS) -> dict:
    """Counts by (kind, problem, rule, option), until the minutes of the processor are over.

    Ctrl-C ends it too. Rules take turns within a problem. Instances of one shape share programs.
    """
    counts: dict[tuple[str, str, str, str], Count] = {}
    ends = time.process_time() + 60 * minutes
    with contextlib.suppress(KeyboardInterrupt):
        for problem, rule, kind in itertools.product(problems, rules, kinds):
            for i in range(instances):
                if time.process_time() > ends:
                    return counts
                seed = KINDS.index(kind), PROBLEMS.index(problem), i
                instance = kind(np.random.default_rng(seed), problem)
                for option, runs, differ in changed(instance, problem, rule, options):
                    key = kind.__name__, problem.name, repr(rule), option
                    counts.setdefault(key, Count()).add(runs, differ)
                    if differ:
                        print(f"  {i}: {', '.join(key)}: {differ} of {runs}", flush=True)
    return counts


# Tables.


def summed(counts: dict, *axes: int) -> dict[tuple, Count]:
    """Counts added up over all axes of the keys but these."""
    found: dict[tuple, Count] = {}
    for key, count in counts.items():
        total = found.setdefault(tuple(key[axis] for axis in axes), Count())
        for field in dataclasses.fields(Count):
            name = field.name
            setattr(total, name, getattr(total, name) + getattr(count, name))
    return found


def table(counts: dict, axis: int, head: str) -> str:
    """The runs that differ, of all runs: a row for each entry of an axis, a column an option."""
    by = summed(counts, axis, 3)
    rows = list(dict.fromkeys(key[0] for key in by))
    lines = [f"| {head} | " + " | ".join(OPTIONS) + " |", "|---" * (len(OPTIONS) + 1) + "|"]
    for row in rows:
        entries = [str(by.get((row, option), "")) for option in OPTIONS]
        lines.append(f"| {row} | " + " | ".join(entries) + " |")
    return "\n".join(lines)


def unexpected(counts: dict) -> dict[tuple, Count]:
    """The counts of runs that no option may change, and one did."""
    found = {}
    for (kind, problem, rule, option), count in counts.items():
        exact = kind in ("independent", "duplicated", "basis") and rule.startswith(EXACT)
        if count.changed and (exact or not rule.startswith(ALLOWED.get(option, ()))):
            found[kind, problem, rule, option] = count
    return found


def main(words: Sequence[str] | None = None) -> int:
    """The command."""
    about = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m tests.ties", description=about)
    parser.add_argument("--minutes", type=float, default=120.0, help="of the processor")
    parser.add_argument("--instances", type=int, default=12, help="of a kind, for each problem")
    parser.add_argument("--kinds", nargs="*", default=[kind.__name__ for kind in KINDS])
    parser.add_argument("--problems", nargs="*", default=[one.name for one in PROBLEMS])
    parser.add_argument("--rules", nargs="*", default=[""], help="what a rule's repr begins with")
    parser.add_argument("--options", nargs="*", default=list(OPTIONS))
    given = parser.parse_args(words)
    kinds = [kind for kind in KINDS if kind.__name__ in given.kinds]
    problems = [one for one in PROBLEMS if one.name in given.problems]
    rules = [rule for rule in RULES if repr(rule).startswith(tuple(given.rules))]
    options = {name: option for name, option in OPTIONS.items() if name in given.options}
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        counts = counted(kinds, problems, rules, given.instances, given.minutes, options)
    minutes = (time.process_time() - began) / 60
    print(f"\n{given.instances} instances of each kind, {RUNS} runs each, {minutes:.1f} minutes")
    for axis, head in ((2, "rule"), (0, "instances"), (1, "problem")):
        print(f"\n{table(counts, axis, head)}")
    wrong = summed(unexpected(counts), 2, 3)
    for (rule, option), count in wrong.items():
        print(f"not allowed: {rule}, {option}: {count} runs")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
