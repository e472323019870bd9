"""Bad input of every kind, and the beginning of its message.

`tests/data/bad_input.tsv` holds the table: an expression, a tab, the beginning of the
message and, after another tab, the exception where it is not any of the library's.
"""

import contextlib
import dataclasses
import io
import math
import re
import tempfile
from pathlib import Path
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import cli, engine
from jaxelim.simulation.plan import planned
from tests.calls import checked

nan, inf = math.nan, math.inf
PHI = np.array([[1.0, 0.0], [0.0, 1.0], [-0.6, 0.8], [0.3, -0.4]])
EASY = je.Instance(PHI, [2.0, 0.5])
UNSTRUCTURED = je.Instance(np.eye(3), [1.0, 0.0, -1.0])
USUAL = dict(instance=EASY, problem=je.BestArm(), rule=je.LinGapE(), max_samples=100)
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
LOGISTIC = je.Instance(PHI, [2.0, 0.5], family=je.Logistic())
BASIS = arms([0.8, 0.4], je.Logistic())
PRICED = arms([0.9, 0.5, 0.1], costs=[1.0, 8.0, 1.0])
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


def sim(**changes):
    return je.simulate(**(USUAL | {"runs": 2} | changes))


def tr(**changes):
    return je.trace(**(USUAL | changes))


def larger(theta):
    return jnp.argmax(theta).astype(jnp.int32)


def undefined_late(t, delta):
    return jnp.where(t > 50, jnp.nan, 5.0) - jnp.log(delta)


def negative_early(t, delta):
    return jnp.log(t) - 2.5 - 0 * delta


def noise_of(largest, rest=0.0):
    """Noise [2, 50] with this value as the fourth of run 1."""
    return np.where(np.arange(100).reshape(2, 50) == 53, largest, rest)


@dataclasses.dataclass(frozen=True)
class Narrow(je.contracts.SamplingRule):
    """A rule defined for few problems and structures."""

    traits = je.contracts.Traits(problems=("best-arm",), structures=("unstructured",),
                                 native="only")  # fmt: skip


def chooses(choose):
    """A run of a rule with this `choose`."""

    class Mine(je.contracts.SamplingRule):
        """A user's rule."""

    Mine.choose = lambda self, view, state: choose(view, state)
    return je.simulate(UNSTRUCTURED, je.BestArm(), Mine(), runs=2, max_samples=60)


# What methods and attributes of one's own may return.


def mine(base, **members):
    """An object of a class of one's own with these members."""
    return dataclasses.dataclass(frozen=True)(type("Mine", (base,), members))()


@dataclasses.dataclass(frozen=True)
class Even(je.contracts.SamplingRule):
    """Pulls the arms in turn."""

    traits = je.contracts.Traits(reads=("pieces",))

    def choose(self, view, state):
        return view.t % 3, state


@dataclasses.dataclass(frozen=True)
class Stop(je.contracts.StoppingRule):
    """Never stops."""

    name: ClassVar[str] = "mine"

    def start(self, seen, pair_times=False):
        return seen.means

    def observe(self, seen, state, beta):
        return state, jnp.zeros_like(beta, bool), jnp.zeros_like(beta, jnp.int32)


def stopping(**members):
    return mine(Stop, **members)


def observes(stops=None, tests=None, state=None):
    def observe(self, seen, old, beta):
        right = super(type(self), self).observe(seen, old, beta)
        given = (state, stops, tests)
        return tuple(x if f is None else f(seen, beta) for x, f in zip(right, given, strict=True))

    return stopping(observe=observe)


def one_of(refusals):
    """The refusal of calls whose sentences are the same; raises it."""
    found = []
    for call in refusals:
        with pytest.raises(je.errors.ArgumentError) as caught:
            call()
        found.append(caught.value)
    assert len({said(str(one)) for one in found}) == 1
    raise found[0]


def stops(rule):
    """Runs of a stopping rule, alone and beside another, of one delta and of two."""
    given = dict(instance=arms([0.5, 0.2, 0.0]), rule=je.Uniform())
    one_of([lambda by=by, delta=delta: sim(**given, stopping=by, delta=delta)
            for by in (rule, (je.LLR(), rule)) for delta in (0.1, [0.1, 0.2])])  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Normal(je.families.OneParameter):
    """Unit Gaussians."""

    name: ClassVar[str] = "normal"
    noise: ClassVar[str] = "normal"

    def draw(self, lanes, nature, arm, pull, noise):
        return lanes.take(nature, arm) + noise

    def loss(self, stat, by):
        return by**2 / 2


def draws(**members):
    """Runs of a family with these members, and of recorded rewards."""
    family, means = mine(Normal, **members), [0.5, 0.2, 0.0]
    past = je.Recorded([[mean, mean] for mean in means])
    one_of([lambda given=given: sim(instance=arms(family=family, **given), rule=je.Uniform())
            for given in ({"means": means}, {"source": past})])  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Shifted(je.contracts.Source):
    """Uniform rewards about the means."""

    name: ClassVar[str] = "shifted"

    def nature(self, instance):
        return instance.means.reshape(-1, instance.K) - 0.5

    def draw(self, lanes, nature, arm, pull, noise):
        return lanes.take(nature, arm) + noise


def drawn_by(**members):
    """A run of a source with these members."""
    sim(instance=arms([0.5, 0.2, 0.0], source=mine(Shifted, **members)), rule=je.Uniform())


def file(text):
    """An instance file with this text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mine.json"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
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
    (*row.split("\t"), "JaxelimError")[:3]
    for row in (Path(__file__).parents[1] / "data" / "bad_input.tsv").read_text().splitlines()
]


@pytest.mark.parametrize("expression, beginning, kind", ROWS, ids=[row[0][:80] for row in ROWS])
def test_row(expression, beginning, kind):
    """Refused before anything compiles, but for what a run finds."""
    before = engine.program.values()
    with pytest.raises(getattr(je.errors, kind)) as caught:
        eval(expression)
    assert said(str(caught.value)).startswith(beginning) and len(beginning) > 8
    found = expression.startswith(("chooses(", "sim(problem=je.HalfSpaces(lambda"))
    assert found or engine.program.values() == before


def test_oracle_weights_within_rounding_are_accepted():
    je.Oracle(W * (1 + 5e-10))
    je.Oracle([W, W])


def test_how_a_rule_runs_is_not_its_own_to_say():
    with pytest.raises(TypeError, match="one_lane"):
        je.contracts.Traits(one_lane=True)


def test_a_good_stopping_rule_is_traced():
    """Its methods pass, so that the refusals above are of their faults."""
    call = checked(UNSTRUCTURED, je.BestArm(), je.Uniform(), delta=[0.1, 0.2],
                   stopping=(je.LLR(), Stop()))  # fmt: skip
    with je.scope.engine():
        planned(call)
