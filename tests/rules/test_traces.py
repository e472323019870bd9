"""The authors' traces in full length: pulls, active sets, stop and answer are equal.

A rule has a row in `RULES` if it has a trace.
"""

import functools
import json
from pathlib import Path

import numpy as np
import pytest

import jaxelim as je

pytestmark = pytest.mark.long_runs
DATA = Path(__file__).parents[1] / "data"
INDEX = json.loads((DATA / "traces" / "index.json").read_text())
SELECTIVE = je.SelectiveElimination()
VARIANTS = {
    "llr": (je.LLR(), None),
    "stop": (SELECTIVE, None),
    "both": (SELECTIVE, SELECTIVE),
    "native": (je.Native(), None),
}


def oracle(entry):
    key = (entry["instance"], entry["problem"])
    known = json.loads((DATA / "oracle_weights.json").read_text())
    return je.Oracle(
        next(one["weights"] for one in known if (one["instance"], one["problem"]) == key)
    )


RULES = {"lingape": lambda _: je.LinGapE(), "lingame": lambda _: je.LinGame(), "oracle": oracle}


@functools.cache
def noise():
    return np.load(DATA / "noise_seed124.npy")


SHIPPED = {
    "linear-d20_bai_lingape_both",
    "linear-d20_topm_lingape_both, 15000 pulls",
    "linear-d20-osi_osi_lingame_llr",
    "linear-d20-osi_osi_oracle_stop",
}
"""Each rule, problem and variant once; the traces of `llr` and `stop` pull the same arms."""
FIRST = {"linear-d20_topm_lingape_both": 15_000}
"""The first pulls of a long trace, beside all of them."""


def entries():
    for entry in INDEX:
        if entry["rule"] in RULES:
            name = entry["file"].removesuffix(".npz")
            rows = [(name, None)]
            if name in FIRST:
                rows.append((f"{name}, {FIRST[name]} pulls", FIRST[name]))
            for row, pulls in rows:
                mark = pytest.mark.shipped if row in SHIPPED else pytest.mark.slow
                yield pytest.param(entry, pulls, id=row, marks=mark)


ENTRIES = list(entries())


def test_the_gate_has_each_rule_problem_and_variant():
    rows = [param for param in ENTRIES if param.marks[0].name == "shipped"]
    chosen = [param.values[0] for param in rows]
    assert {param.id for param in rows} == SHIPPED and len(rows) == len(SHIPPED)
    for key, known in (("rule", RULES), ("problem", ("bai", "topm", "osi"))):
        assert {e[key] for e in chosen} == set(known)
    assert {e["variant"] for e in chosen} == {"llr", "stop", "both"}


@pytest.mark.parametrize(("entry", "first"), ENTRIES)
def test_trace(entry, first):
    """All pulls of a trace, or the first ones."""
    theirs = np.load(DATA / "traces" / entry["file"])
    pulls, stopped = first or len(theirs["arms"]), bool(theirs["stopped"]) and first is None
    problem = {"bai": je.BestArm(), "topm": je.TopM(entry["m"] or 1), "osi": je.Thresholding()}[
        entry["problem"]
    ]
    stopping, elimination = VARIANTS[entry["variant"]]
    ours = je.trace(
        je.load_instance(entry["instance"]),
        problem,
        RULES[entry["rule"]](entry),
        noise=noise(),
        stopping=stopping,
        elimination=elimination,
        delta=0.01,
        max_samples=first or min(65_000, noise().size),
        ridge=1.0,
    )

    np.testing.assert_allclose(ours.theta_hat_0, theirs["theta_hat_0"], rtol=0, atol=1e-10)
    np.testing.assert_array_equal(ours.arms[:pulls], theirs["arms"][:pulls])
    seen = len(theirs["active"]) - len(theirs["arms"]) + pulls
    np.testing.assert_array_equal(ours.active[:seen], theirs["active"][:seen])
    if not stopped:  # the trace ends there; our run continues
        assert ours.samples >= pulls
        return
    assert ours.stopped and not ours.truncated
    assert ours.samples == int(theirs["samples"]) == pulls
    answer = theirs["answer"]
    if entry["problem"] == "osi":
        np.testing.assert_array_equal(ours.answer, answer.astype(bool))
    else:
        np.testing.assert_array_equal(np.flatnonzero(ours.answer), np.sort(np.atleast_1d(answer)))
    if stopping.eliminates and ours.elimination_times is not None:
        np.testing.assert_array_equal(ours.elimination_times, theirs["elimination_times"])
    means = je.load_instance(entry["instance"]).means
    np.testing.assert_allclose(
        ours.rewards[:pulls], means[ours.arms] + noise()[:pulls], rtol=0, atol=1e-12
    )
    np.testing.assert_array_equal(np.bincount(ours.arms, minlength=means.size), ours.pulls)
