"""Studies beyond the paper: `python -m experiments studies gk16 --runs 3000`.

Each is one call of `je.study`. It is written as NAME.md, NAME.csv and NAME.png: a
table of samples and errors for every instance and problem, and the stopping times on the first.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import pandas as pd
import tyro

import jaxelim as je
from experiments import cells
from jaxelim import catalogue, checks, figures
from jaxelim.errors import ArgumentError, UnsupportedError
from jaxelim.files import write_whole
from jaxelim.simulation.results.confidence import rate


@dataclasses.dataclass(frozen=True)
class Asked:
    """A study: its title, notes, and the arguments of `je.study`."""

    title: str
    notes: tuple[str, ...]
    instances: dict[str, je.Instance]
    problem: Any
    rules: dict[str, Any]
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    shares: bool = False  # whether the page has the best arm's shares of the pulls


def of_means(families: dict[str, tuple[Any, Any]]) -> dict[str, je.Instance]:
    """Independent arms by name, of (means, family)."""
    return {
        name: je.Instance.unstructured(means, family, name=name)
        for name, (means, family) in families.items()
    }


GK16 = (0.3, 0.21, 0.2, 0.19, 0.18)
_SHANG = (0.5, 0.9, 0.4, 0.45, 0.44999)


def gk16() -> Asked:
    """Table 1 of Garivier & Kaufmann (2016)."""
    rules = {"tas-d": je.TrackAndStop(), "tas-c": je.TrackAndStop(tracking="C"),
             "kl-lucb": je.LUCB(pulls=2), "kl-racing": je.Racing()}  # fmt: skip
    stopping = {name: je.Native() if name[:2] == "kl" else je.LLR() for name in rules}
    return Asked(
        "Garivier & Kaufmann 2016, Table 1",
        ("tas-d, tas-c: D- and C-tracking, LLR stopping. kl-lucb: two pulls a round, its own stop. "
         "kl-racing: that of Kaufmann & Kalyanakrishnan (2013); the paper drops the worst arm "
         "alone.",),
        of_means({"1": ((0.5, 0.45, 0.43, 0.4), je.Bernoulli()), "2": (GK16, je.Bernoulli())}),
        je.BestArm(),
        {name: {"rule": rule, "stopping": stopping[name]} for name, rule in rules.items()},
        dict(delta=0.1, threshold=je.GK16()),
    )  # fmt: skip


def top_two() -> Asked:
    """Top-two rules beside others, on instances of the literature."""
    rules: dict[str, Any] = {
        "tas": je.TrackAndStop(), "eb-tci": je.EBTCI(), "eb-tci, ids": je.EBTCI("ids", "tracking"),
        "ttucb": je.TTUCB(), "ttucb, ids": je.TTUCB("ids"), "t3c": je.T3C(),
        "t3c, ids": je.T3C("ids"), "ts-tci": je.TSTCI(), "kl-lucb": je.LUCB(),
        "uniform": je.Uniform(),
    }  # fmt: skip
    return Asked(
        "Top-two rules",
        ("ids: information-directed shares, else 1/2. eb and ttucb with ids, and ttucb, select by "
         "tracking; the others at random. kl-lucb: one pull a round.",
         "gk16: Garivier & Kaufmann 2016; menard: Menard 2019; shang: Shang et al. 2020."),
        of_means({"gk16": (GK16, je.Bernoulli()), "menard": ((1.0, 0.85, 0.8, 0.7), je.Gaussian()),
                  "shang-gaussian": (_SHANG, je.Gaussian()),
                  "shang-bernoulli": (_SHANG, je.Bernoulli())}),
        je.BestArm(), rules, dict(delta=(0.1, 0.01), threshold=je.GK16()),
    )  # fmt: skip


def shares() -> Asked:
    """The best arm's share of the pulls as delta falls."""
    asked = top_two()
    kept = ("tas", "eb-tci", "eb-tci, ids", "ttucb", "ttucb, ids", "t3c", "t3c, ids", "uniform")
    return dataclasses.replace(
        asked,
        title="The best arm's share as delta falls",
        instances={"menard": asked.instances["menard"]},
        rules={name: asked.rules[name] for name in kept},
        settings=dict(delta=(1e-2, 1e-4, 1e-6, 1e-9), threshold=je.GK16()),
        shares=True,
    )


def transductive(n: int = 5) -> Asked:
    """The transductive instance of Fiez, Jain, Jamieson & Ratliff (2019), from their program."""
    basis, angle = np.eye(2 * n), 0.1
    turned = math.cos(angle) * basis[:n] + math.sin(angle) * basis[n:]
    rules: dict[str, Any] = {
        "rage": je.RAGE(), "lingape": je.LinGapE(), "lingame": je.LinGame(),
        "tas": je.TrackAndStop(schedule=100), "uniform": je.Uniform(),
    }  # fmt: skip
    every = (je.LLR(), je.SelectiveElimination(), je.FullElimination())
    return Asked(
        "Fiez et al. 2019, the transductive instance",
        ("Arms e_1, .., e_2n; items e_1, .., e_n and cos(0.1) e_j + sin(0.1) e_{n+j}, n = 5; "
         "theta = e_1. The best item is e_1, and the one after it is 0.005 worse.",
         "rage stops by its own test. tas: w* solved every 100 samples."),
        {f"n = {n}": je.Instance(basis, basis[0])},
        {"best item": je.BestArm(items=np.concatenate([basis[:n], turned]))},
        {name: {"rule": rule, "stopping": (je.Native(),) if name == "rage" else every}
         for name, rule in rules.items()},
        dict(delta=0.05),
    )  # fmt: skip


def price_of_proof() -> Asked:
    """Samples with each threshold, in four families."""
    near, wide = (0.5, 0.4, 0.3, 0.2, 0.1), (1.0, 0.5, 0.0, -0.5, -1.0)
    means: dict[str, Any] = {
        "gaussian 1": (near, je.Gaussian()), "gaussian 2": (wide, je.Gaussian()),
        "gaussian 3": ((0.5, *(0.2,) * 9), je.Gaussian()),
        "bernoulli 1": (near, je.Bernoulli()),
        "bernoulli 2": ((0.24, 0.3, 0.2, 0.15), je.Bernoulli()),
        "bernoulli 3": ((0.9, 0.8, 0.7), je.Bernoulli()),
        "poisson 1": ((2.0, 1.6, 1.4, 1.0), je.Poisson()),
        "poisson 2": ((3.0, 1.0, 0.5), je.Poisson()),
        "poisson 3": ((10.0, 9.0, 8.0), je.Poisson()),
        "exponential 1": ((1.0, 0.8, 0.6, 0.4), je.Exponential()),
        "exponential 2": ((1.0, 0.4, 0.2), je.Exponential()),
        "exponential 3": ((5.0, 4.0, 4.0), je.Exponential()),
    }  # fmt: skip
    thresholds = {"gk16": je.GK16(), "heuristic": je.Heuristic(), "mixture": je.Mixture(),
                  "kaufmann-koolen": je.thresholds.KaufmannKoolen()}  # fmt: skip
    return Asked(
        "The price of a proof",
        ("EB-TCI with each threshold. Mixture and KaufmannKoolen have a proof.",),
        of_means(means), je.BestArm(),
        {name: {"rule": je.EBTCI(), "threshold": one} for name, one in thresholds.items()},
        dict(delta=(1e-1, 1e-2, 1e-4)),
    )  # fmt: skip


def batches() -> Asked:
    """What batches and delays cost in samples."""
    rules = {
        "EBTCI": je.EBTCI(), "LUCB": je.LUCB(), "LinGame": je.LinGame(),
        "TrackAndStop": je.TrackAndStop(), "FWS": je.FWS(), "Uniform": je.Uniform(),
    }  # fmt: skip
    waits = [{"batch": b} for b in (1, 10, 100, 1000)] + [{"delay": d} for d in (10, 100, 1000)]
    means = (0.6, 0.2, 0.1, 0.0, 0.0, 0.0, -0.1, -0.2, -0.3, -0.3)
    return Asked(
        "What batches and delays cost",
        ("Samples count pulls whose rewards are pending at the end: a run ends at the end of a "
         "batch, and a delay of D leaves D rewards pending.",),
        of_means({"ten unit Gaussians": (means, je.Gaussian())}), je.BestArm(),
        {f"{name}, {key} {number}": {"rule": rule, key: number}
         for name, rule in rules.items() for wait in waits for key, number in wait.items()},
        dict(delta=0.01, threshold=je.Mixture()),
    )  # fmt: skip


def beyond_gaussians() -> Asked:
    """What elimination saves with other rewards: the questions of the paper's Table 4."""
    spread = np.concatenate([[1.0, 0.9, 0.8], np.linspace(0.6, 0.0, 7)])
    full, selective = je.FullElimination(), je.SelectiveElimination()
    rules = {"k-learner": je.LinGame(), "kl-lucb": je.LUCB(), "lazy-tas": je.LazyTaS()}
    watched = {name: {"rule": rule, "stopping": (je.LLR(), selective, full)}
               for name, rule in {**rules, "uniform": je.Uniform()}.items()}  # fmt: skip
    both = {f"{name}, {one.name} at both": {"rule": rule, "stopping": one, "elimination": one}
            for name, rule in rules.items() for one in (selective, full)}  # fmt: skip
    return Asked(
        "Elimination beyond Gaussian rewards", (),
        of_means({"bernoulli": (0.1 + 0.5 * spread, je.Bernoulli()),
                  "unknown variance": (spread, je.GaussianUnknownVariance())}),
        {"best arm": je.BestArm(), "top 3": je.TopM(3)}, {**watched, **both}, dict(delta=0.01),
    )  # fmt: skip


def small_instances() -> Asked:
    """Error rates of every rule on twenty small random instances, by problem."""
    rng, means = np.random.default_rng(20221128), []
    while len(means) < 20:
        one = rng.normal(size=6)
        if np.diff(np.sort([*one, 0.0])).min() > 0.15:
            means.append(one)
    everywhere = [
        kind for kind in catalogue.rules().values()
        if all(kind.traits.defined_for(x) for x in ("best-arm", "top-m", "thresholding"))
        and "unstructured" in kind.traits.structures and "llr" in kind.traits.stopping
    ]  # fmt: skip
    return Asked(
        "Errors on small random instances",
        ("Each instance of the batch of twenty has its own rows.",),
        {"small": je.Instance.unstructured(np.stack(means), name="small")},
        {"best arm": je.BestArm(), "top 2": je.TopM(2), "signs": je.Thresholding()},
        {kind.__name__: kind() for kind in everywhere},
        dict(delta=0.05, stopping=(je.LLR(), je.SelectiveElimination())),
    )  # fmt: skip


STUDIES: dict[str, Callable[[], Asked]] = {
    one.__name__: one
    for one in (gk16, top_two, shares, transductive, price_of_proof, batches, beyond_gaussians,
                small_instances)
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Options(cells.Options):
    """A study beyond the paper: gk16, top_two, shares, transductive, price_of_proof, batches,
    beyond_gaussians or small_instances."""

    name: Annotated[str, tyro.conf.Positional] = "gk16"
    """Its name."""
    rules: tuple[str, ...] = ()
    """Rows; by default all."""
    instances: tuple[str, ...] = ()
    """Instances; by default all."""


def chosen(options: Options) -> Asked:
    """The study, with the rows and instances that are asked for.

    Raises:
        ArgumentError: there is no such study, row or instance.
    """
    asked = STUDIES[checks.choice("name", options.name, STUDIES)]()
    kept: dict[str, Any] = {}
    for axis in ("rules", "instances"):
        known, given = getattr(asked, axis), getattr(options, axis)
        for name in given:
            checks.choice(axis, name, known)
        if len(set(given)) < len(given):
            raise ArgumentError(axis, given, "each once")
        kept[axis] = {name: known[name] for name in given or known}
    return dataclasses.replace(asked, **kept)


def lines(study: je.Study) -> list[dict[str, Any]]:
    """A row of numbers for each instance, problem, rule, stopping rule and delta.

    With runs that were cut off, means and medians are of min(tau, cap). "over the first" is the
    mean over that of the first row of the instance and problem. "over the bound" is it over
    kl(delta, 1 - delta)/H*, NaN where H* is not defined.
    """
    found: list[dict[str, Any]] = []
    first: dict[tuple, float] = {}
    values = {tuple(where.values()): hardness(next(iter(named.values())))  # H*
              for where, named in study.groups()}  # fmt: skip
    for (rule, instance, problem), result in study.results.items():
        value = values[instance, problem]
        for s, d in np.ndindex(result.samples.shape[:2]):
            tau, stopped, delta = result.samples[s, d], result.stopped[s, d], result.deltas[d]
            mean, wrong = tau.mean(), int((~result.correct[s, d][stopped]).sum())
            base = first.setdefault((instance, problem, delta), mean)
            interval = rate(wrong, max(int(stopped.sum()), 1))
            share = (result.pulls[s, d] / tau[:, None]).mean(0)[np.argmax(result.instance.means)]
            found.append({
                "instance": instance, "problem": problem, "rule": rule,
                "stopping": result.stopping[s].name, "delta": float(delta), "mean": mean,
                "se": tau.std(ddof=1) / tau.size**0.5 if tau.size > 1 else math.nan,
                "median": float(np.median(tau)), "over the first": mean / base,
                "over the bound": mean / float(je.bounds.kl_bound(delta, value)),
                "share of the best arm": math.nan if result.problem.answer_axis else share,
                "errors": wrong, "low": interval.low, "high": interval.high,
                "stopped": int(stopped.sum()), "runs": tau.size,
                "us/sample": 1e6 * result.timings["seconds"] / result.timings["samples_drawn"],
            })  # fmt: skip
    return found


def hardness(result: je.Result) -> float:
    """H* of a result's instance and problem, NaN where it is not defined."""
    try:
        return float(je.complexity(result.instance, result.problem).value)
    except UnsupportedError:
        return math.nan


def samples(line: dict[str, Any]) -> str:
    """Mean and standard error; a dagger where runs were cut off."""
    return f"{line['mean']:.0f} ± {line['se']:.0f}" + "†" * (line["stopped"] < line["runs"])


def errors(line: dict[str, Any]) -> str:
    """The share of wrong answers, with its interval."""
    return f"{line['errors']}/{line['stopped']} [{line['low']:.3f}, {line['high']:.3f}]"


def share(line: dict[str, Any]) -> str:
    return f"{line['share of the best arm']:.3f}"


def by_delta(found: list[dict[str, Any]], value: Callable) -> str:
    """A table with a row for each instance and delta, and a column for each rule."""
    rows: dict[tuple, dict[str, str]] = {}
    for line in found:
        start = {"instance": line["instance"], "delta": f"{line['delta']:g}",
                 "bound": f"{line['mean'] / line['over the bound']:.0f}"}  # fmt: skip
        row = rows.setdefault((line["instance"], line["problem"], line["delta"]), start)
        row[line["rule"]] = value(line)
    return cells.markdown(list(rows.values()))


def by_rule(found: list[dict[str, Any]]) -> str:
    """A table with a row for each rule; columns that have one value, or none, are left out."""
    rows = [{
        "rule": line["rule"], "stopping": line["stopping"], "samples": samples(line),
        "median": f"{line['median']:.0f}", "over the first": f"{line['over the first']:.2f}",
        "over the bound": f"{line['over the bound']:.2f}", "share of the best arm": share(line),
        "errors [95%]": errors(line), "us/sample": f"{line['us/sample']:.2f}",
    } for line in found]  # fmt: skip
    empty = {name for name in rows[0] if {row[name] for row in rows} == {"nan"}}
    empty |= {"stopping"} if len({row["stopping"] for row in rows}) == 1 else set()
    return cells.markdown([{k: x for k, x in row.items() if k not in empty} for row in rows])


def page(asked: Asked, found: list[dict[str, Any]], options: Options) -> str:
    """The study as Markdown: by delta where there are several, else an instance a table."""
    parts, said = [f"# {asked.title}\n"], list(asked.notes)
    if len({line["delta"] for line in found}) > 1:
        parts.append(by_delta(found, samples) + "\n")
        if asked.shares:
            parts.append(f"Share of the best arm:\n\n{by_delta(found, share)}\n")
        most = max(found, key=lambda line: line["errors"])
        said.append(
            f"Most wrong answers: {most['rule']} on {most['instance']} at delta = "
            f"{most['delta']:g}, {errors(most)}. bound: the least mean, kl(delta, 1 - delta)/H*."
        )
    else:
        for where in dict.fromkeys((line["instance"], line["problem"]) for line in found):
            rows = [line for line in found if (line["instance"], line["problem"]) == where]
            parts.append(f"## {where[0]}, {where[1]}\n\n{by_rule(rows)}\n")
    settings = ", ".join(f"{name} = {value}" for name, value in asked.settings.items())
    said += [
        f"{settings}; {options.runs} runs, seed {options.seed}, cap {options.max_samples} samples; "
        "mean ± standard error. Rows of one instance see the same noise.",
        "Errors: wrong answers among the runs that stopped, with the Clopper-Pearson interval.",
    ]
    cut = sum(line["runs"] - line["stopped"] for line in found)
    if cut:
        said.append(f"† {cut} runs were cut off: such a row is of min(tau, cap).")
    return "\n".join([*parts, *(f"- {one}" for one in said)]) + "\n"


def make(options: Options) -> None:
    """Run the missing runs; write the page, the numbers and the figure."""
    asked, stem = chosen(options), options.output / options.name
    files = [stem.with_suffix(ending) for ending in (".md", ".csv", ".png", ".pdf")]
    grid = asked.instances, asked.problem, asked.rules
    study = cells.studied(options, files, *grid, **asked.settings)
    if study is None:
        return
    found = lines(study)
    text = page(asked, found, options)
    write_whole(files[0], text.encode())
    write_whole(files[1], pd.DataFrame(found).to_csv(index=False).encode())
    print(text)
    print(*figures.save(figures.survival_figure(study.groups()[0][1], bounds=False), stem))
