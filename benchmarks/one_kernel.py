"""Time per sample in one kernel and in many, for the rules that may have one.

    python -m benchmarks.one_kernel                     all rows
    python -m benchmarks.one_kernel lingape uniform     rows of these rules

A row has 64 runs each way, in 32 and 64 lanes, cut off so that all are equally long; the least
processor time of several, by turns. Pin it to a core, as by `taskset -c 0`.
"""

import argparse
import contextlib
import time
from collections.abc import Sequence

import numpy as np

import jaxelim as je
from benchmarks.cases import whole_chunks
from benchmarks.kernels import in_many_kernels
from jaxelim import catalogue

ROWS = (
    ("lingape", "best-arm", "linear-d20"), ("lingape", "thresholding", "linear-d20-osi"),
    ("lingape", "top-m", "linear-d20"), ("oracle", "best-arm", "linear-d20"),
    ("oracle", "top-m", "linear-d20"), ("uniform", "best-arm", "linear-d20"),
    ("eb-tci", "best-arm", "unstructured-k40"), ("ttucb", "best-arm", "unstructured-k40"),
)  # fmt: skip
"""Rules, problems and instances; m = 5."""
NAMES = {"eb-tci": je.EBTCI, "ttucb": je.TTUCB}
"""Rules that have no name of their own on the command line."""


def timed(rule: je.SamplingRule, problem: str, instance: str, lanes: int, runs: int) -> tuple:
    """Processor seconds of a call, and its result; the first call of a rule compiles."""
    began = time.process_time()
    result = je.simulate(
        je.load_instance(instance),
        catalogue.find_problem(problem, 5 if problem == "top-m" else None), rule,
        delta=1e-100, runs=runs, stopping=je.SelectiveElimination(),
        max_samples=whole_chunks(40), engine=je.Engine(devices=1, lanes=lanes), progress=False,
    )  # fmt: skip
    return time.process_time() - began, result


def row(rule_name: str, problem: str, instance: str, repeats: int, runs: int) -> str:
    """One line: both ways, and whether the pulls are the same."""
    make = NAMES.get(rule_name) or catalogue.find_rule(rule_name)
    ways = {32: contextlib.nullcontext, 64: in_many_kernels}
    best, results = dict.fromkeys(ways, np.inf), {}
    for turn in range(repeats + 1):
        for lanes, way in ways.items():
            with way():
                took, results[lanes] = timed(make(), problem, instance, lanes, runs)
            if turn:
                best[lanes] = min(best[lanes], 1e6 * took / results[lanes].samples.sum())
    same = np.array_equal(results[32].pulls, results[64].pulls)
    return (
        f"| {rule_name}, {problem} | {instance} | {best[64]:.3f} | {best[32]:.3f} "
        f"| {best[32] / best[64]:.2f} | {same} |"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    title = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.one_kernel", description=title)
    parser.add_argument("rules", nargs="*", metavar="RULE", help="default: all")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--runs", type=int, default=64)
    options = parser.parse_args(arguments)
    print("| rule, problem | instance | many kernels, us | one, us | ratio | equal |")
    print("|---|---|---|---|---|---|")
    for one in ROWS:
        if not options.rules or one[0] in options.rules:
            print(row(*one, options.repeats, options.runs), flush=True)


if __name__ == "__main__":
    main()
