"""The paper's numbers, and comparisons with them."""

import csv
import json
from pathlib import Path

import numpy as np

DATA = Path(__file__).parent / "data"
PAPER_RUNS = 100
CAP = 1_000_000
"""Samples at which the paper cut runs off; its means include those runs."""


def cells() -> dict[tuple[str, str, str, str], dict[str, float]]:
    """The paper's cells by (table, problem, algorithm, column).

    Returns:
        Mean and sd of samples in thousands, and milliseconds per iteration.
    """
    with open(DATA / "paper_tables.csv", newline="") as file:
        return {
            (row["table"], row["problem"], row["algorithm"], row["column"]): {
                "mean": float(row["samples_mean_k"]),
                "sd": float(row["samples_std_k"]),
                "ms": float(row["time_ms_per_iteration"]),
            }
            for row in csv.DictReader(file)
        }


def oracle_weights(instance: str, problem: str) -> np.ndarray:
    """The allocation that the authors' oracle tracks: [K]."""
    for one in json.loads((DATA / "oracle_weights.json").read_text()):
        if (one["instance"], one["problem"]) == (instance, problem):
            return np.array(one["weights"])
    raise KeyError((instance, problem))


def z_score(tau: np.ndarray, paper: dict[str, float]) -> float:
    """(ours - paper)/sqrt(sd_paper^2/100 + sd^2/n), for tau [n] in samples."""
    ours = tau / 1000
    return float(
        (ours.mean() - paper["mean"])
        / np.sqrt(paper["sd"] ** 2 / PAPER_RUNS + ours.var(ddof=1) / ours.size)
    )
