"""Bad input of every kind, and the beginning of its message.

`tests/data/bad_input.tsv` holds the table: an expression, a tab, and the beginning of
the message. The call must raise one of the library's exceptions.
"""

import contextlib
import io
import math
import re
import tempfile
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import cli, engine
from tests.faces import refusals

nan, inf = math.nan, math.inf
sim, tr = refusals.simulate, refusals.trace
PHI, EASY, UNSTRUCTURED = refusals.PHI, refusals.EASY, refusals.UNSTRUCTURED
BATCH = je.Instance(PHI, [[2.0, 0.5], [0.3, 1.0]])
COINS = je.Instance.unstructured([0.8, 0.3], je.Bernoulli())
FLAT = je.Instance([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]], [1.0, 0.2, 0.0])
TIE = je.Instance(np.eye(4), [1.0, 0.5, 0.5, 1.0])
SELECTIVE, FULL = je.SelectiveElimination(), je.FullElimination()
NOISE = np.zeros((2, 50))
W = np.array([0.1, 0.2, 0.3, 0.4])
arms = je.Instance.unstructured
HEADS, TOSSES = arms([0.8, 0.3, 0.1], je.Bernoulli()), arms([0.5, 0.7], je.Bounded())
COUNTS = arms([3.0, 0.5, 0.6, 2.0, 0.0], je.Poisson())
TIMES = arms([3.0, 0.5, 0.6, 2.0, 0.4], je.Exponential())
NORMALS = arms([2.0, -0.2, -0.9, 1.0, -0.5], je.Gaussian([1.0, 0.5, 1.5, 1.0, 0.7]))
MU, STDS = [3.0, 1.4, -0.4, -1.6], [1.0, 0.5, 1.0, 0.8]
UNKNOWN = arms(MU, je.GaussianUnknownVariance(), source=je.families.Normal(STDS))
ONES = je.Recorded([[0, 1, 1], [0, 1, 0]])
PAST = arms(source=ONES, family=je.Bernoulli())
ITEMS = arms(source=je.Recorded(ONES.rewards, "bootstrap", common=True), family=je.Paired())
HALVES = je.HalfSpaces(
    lambda theta: jnp.argmax(theta),
    np.stack([np.eye(3)[i] - np.delete(np.eye(3), i, 0) for i in range(3)]),
)
Y = np.array([[[1.0, -1.0]], [[-1.0, 1.0]]])
GOOD = '{"theta": [1, 0.5], "arms": [[1, 0], [0, 1]]}'


def larger(theta):
    return jnp.argmax(theta).astype(jnp.int32)


def chooses(choose):
    """A run of a rule with this `choose`."""

    class Mine(je.contracts.SamplingRule):
        """A user's rule."""

    Mine.choose = lambda self, view, state: choose(view, state)
    return je.simulate(UNSTRUCTURED, je.BestArm(), Mine(), runs=2, max_samples=60)


def file(text):
    """An instance file with this text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mine.json"
        path.write_text(text)
        return je.load_instance(path)


def command(*arguments):
    """Run a command line and raise its one line of standard error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(list(arguments))
    assert code == 2 and not out.getvalue(), (code, out.getvalue())
    (line,) = err.getvalue().splitlines()
    raise je.errors.JaxelimError(line)


def said(text):
    """A message on one line, without addresses and temporary folders."""
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    text = re.sub(r"<[\w.]*chooses\.<locals>\.Mine object>", "Mine()", text)
    return " ".join(re.sub(r"'/[^']*/mine\.json'", "'mine.json'", text).split())


ROWS = [
    row.split("\t")
    for row in (Path(__file__).parents[1] / "data" / "bad_input.tsv").read_text().splitlines()
]


@pytest.mark.parametrize("expression, beginning", ROWS, ids=[row[0][:80] for row in ROWS])
def test_row(expression, beginning):
    """Refused before anything compiles, but for what a run finds."""
    before = engine.program.values()
    with pytest.raises(je.errors.JaxelimError) as caught:
        eval(expression)
    assert said(str(caught.value)).startswith(beginning) and len(beginning) > 8
    found = expression.startswith(("chooses(", "sim(problem=je.HalfSpaces(lambda"))
    assert found or engine.program.values() == before
