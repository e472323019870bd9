"""Validators and exceptions: accepted values, their form, and every refusal."""

import pickle
from enum import IntEnum
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from jaxelim import checks
from jaxelim.errors import ArgumentError, JaxelimError, UnsupportedError, abbreviate, unknown_name
from jaxelim.instances.instance import Instance
from tests.calls import refused

NAN, INF = float("nan"), float("inf")
HOLDS_ITSELF: list = []
HOLDS_ITSELF.append(HOLDS_ITSELF)


# Exceptions


def test_message_and_attributes():
    error = ArgumentError("delta", 1.5, "a number strictly between 0 and 1")
    assert str(error) == "delta: got 1.5; allowed: a number strictly between 0 and 1"
    allowed = "a number strictly between 0 and 1"
    assert (error.argument, error.given, error.allowed) == ("delta", 1.5, allowed)
    assert isinstance(error, ValueError) and isinstance(error, JaxelimError)
    assert str(ArgumentError("m", 3, "1", "why")) == "m: got 3 (why); allowed: 1"


@pytest.mark.parametrize("error", [
    ArgumentError("a", 1, "two", "note"), ArgumentError(argument="a", given=1, allowed="two"),
    UnsupportedError("rule", "x", "y"),
])  # fmt: skip
def test_exceptions_survive_pickling(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error) and vars(again) == vars(error)


def test_unknown_name_lists_the_nearest_and_all():
    error = unknown_name("rule", "LinGap", ["fws", "lingape", "lucb"])
    assert "nearest: 'lingape'" in str(error) and "'fws', 'lingape', 'lucb'" in str(error)
    assert "nearest" not in str(unknown_name("rule", "zzz", ["fws"]))
    assert "no name is known" in str(unknown_name("rule", "zzz", []))


@pytest.mark.parametrize(
    "value",
    [np.zeros((4, 50, 20)), [[0.1] * 1000] * 1000, "x" * 10_000, 10**5000, np.arange(1e6)],
    ids=["batch", "list", "string", "integer", "vector"],
)
def test_long_values_are_abbreviated(value):
    text = abbreviate(value)
    assert len(text) <= 160 and "\n" not in text
    if isinstance(value, np.ndarray):
        assert str(value.shape) in text


def test_short_values_and_those_that_cannot_be_printed():
    class Silent:
        def __repr__(self):
            raise RuntimeError("no")

    assert "Silent" in abbreviate(Silent())
    assert abbreviate(np.float64(1.5)) == "1.5"
    assert abbreviate(np.array([0.5, 2.0])) == "[0.5, 2. ]"
    assert abbreviate([1, "a", None]) == "[1, 'a', None]"


# real_array


@given(hnp.arrays(
    hnp.integer_dtypes() | hnp.floating_dtypes(sizes=(16, 32, 64)), hnp.array_shapes(min_dims=0)
))  # fmt: skip
def test_real_array_converts_or_refuses(value):
    if np.isfinite(value).all():
        array = checks.real_array("x", value)
        assert array.dtype == np.float64 and array.dtype.isnative and array.flags.c_contiguous
        assert array.shape == value.shape and np.array_equal(array, value.astype(np.float64))
        assert not np.shares_memory(array, value)
    else:
        refused(lambda: checks.real_array("x", value), "x", "finite")


@pytest.mark.parametrize("value", [
    [1, 2.5], (1, 2.5), [np.int64(1), np.float32(2.5)], jnp.array([1, 2.5], dtype="float32"),
    np.array([2.5, 1])[::-1], [np.array(1), np.array(2.5)],
    np.array([1, 2.5]).view(np.recarray),
], ids=["list", "tuple", "scalars", "jax", "reversed", "nulldim", "subclass"])  # fmt: skip
def test_real_array_accepts_what_numpy_reads(value):
    array = checks.real_array("x", value)
    assert type(array) is np.ndarray and array.dtype == np.float64 and array.tolist() == [1.0, 2.5]


def test_real_array_checks_dimensions_and_shape():
    value = np.ones((2, 3))
    for ndim in (2, (1, 2), None):
        assert checks.real_array("x", value, ndim=ndim).shape == (2, 3)
    for shape in ((2, 3), (None, 3), (None, None)):
        assert checks.real_array("x", value, shape=shape).shape == (2, 3)
    for ndim in (0, 1, 3, (0, 1)):
        refused(lambda ndim=ndim: checks.real_array("x", value, ndim=ndim), "x", "shape is (2, 3)")
    for shape in ((3, 2), (2, None, 3), (2,), ()):
        refused(lambda shape=shape: checks.real_array("x", value, shape=shape), "x", "is (2, 3)")


# Numbers, seeds, deltas, runs.


@pytest.mark.parametrize(
    "value", [2, 2.0, np.float32(2), np.int8(2), np.array(2.0), jnp.array(2.0, dtype="float32")]
)
def test_real_accepts_numbers(value):
    number = checks.real("x", value)
    assert type(number) is float and number == 2.0
    assert checks.real("x", 10**25) == 1e25  # beyond 64 bits


@pytest.mark.parametrize(("options", "inside", "outside", "words"), [
    ({"low": 0}, [0, 1e300], [-1e-300], "a finite number >= 0"),
    ({"low": 0, "open": True}, [5e-324], [0, -0.0, -1], "a finite number > 0"),
    ({"high": 1}, [1, -1e300], [1.0000001], "a finite number <= 1"),
    ({"high": 1, "open": True}, [0.9999], [1], "a finite number < 1"),
    ({"low": 0, "high": 1, "open": True}, [0.5], [0, 1, 2], "strictly between 0 and 1"),
    ({"low": 0, "high": 1}, [0, 1], [-0.1, 1.1], "a number in [0, 1]"),
])  # fmt: skip
def test_real_bounds(options, inside, outside, words):
    for value in inside:
        assert checks.real("x", value, **options) == value
    for value in [*outside, NAN, True]:
        refused(lambda value=value: checks.real("x", value, **options), "x", words)


class Three(IntEnum):
    THREE = 3


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3), Three.THREE])
def test_integer_accepts_integers(value):
    number = checks.integer("n", value, low=3, high=3)
    assert type(number) is int and number == 3
    assert checks.seed(np.uint64(2**63 - 1)) == 2**63 - 1


@given(st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_deltas(value):
    for given_ in (value, np.float64(value), [value], np.array(value)):
        array = checks.deltas(given_)
        assert array.shape == (1,) and array.dtype == np.float64 and array[0] == value
    assert checks.deltas((0.1, 0.3, 0.1)).tolist() == [0.1, 0.3, 0.1]


@given(st.integers(1, 300))
def test_a_number_of_runs(n):
    for value in (n, np.int32(n)):
        indexes = checks.runs(value)
        assert indexes.dtype == np.int64 and indexes.tolist() == list(range(n))


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=20, unique=True))
def test_run_indexes(indexes):
    for value in (indexes, tuple(indexes), np.array(indexes), np.array(indexes, dtype=np.uint64)):
        array = checks.runs(value)
        assert array.dtype == np.int64 and array.tolist() == indexes
        assert not np.shares_memory(array, value)
    assert checks.runs(range(5, 8)).tolist() == [5, 6, 7]


def test_choice():
    assert checks.choice("problem", "top-m", ("best-arm", "top-m")) == "top-m"


# What is refused: the check, the argument's name, what the message says, values.

REFUSED = (
    (lambda x: checks.real_array("x", x), "x", "real numbers", [
        [True, False], [True, 0.5], [[0.5], [np.True_]], [np.array([True]), np.array([0.5])],
        np.array([True]), [1j, 2], np.array([1.0], dtype=object), ["1", "2"], "1", b"1", None,
        [None, 1.0], [[1.0], [1.0, 2.0]], [10**400], {1.0}, {"a": 1.0},
        np.array(["2020-01-01"], dtype="datetime64[D]"), np.array([1], dtype="timedelta64[s]"),
        np.array([(1.0,)], dtype=[("a", float)]), np.ma.masked_array([1.0, 2.0], mask=[1, 0]),
        [NAN], [INF], [-INF], 1e999, object, len, HOLDS_ITSELF,
        np.array([1e4000], np.longdouble) if np.finfo(np.longdouble).max > 1e308 else [INF],
        Instance([[1, 0], [0, 1]], [1, 0.5]),
    ]),
    (lambda x: checks.real("x", x), "x", "a finite real number", [
        True, np.True_, np.array(True), NAN, INF, -INF, 1j, "1", None, [1.0], np.ones(1), 10**400,
        Fraction(1, 2), len,
    ]),
    (lambda x: checks.integer("n", x), "n", "an integer", [
        True, np.True_, 3.0, np.float64(3), "3", None, [3], np.array([3]), np.array(3), 3j, NAN,
    ]),
    (checks.seed, "seed", "an integer from 0", [-1, 2**63, 0.0, True, None, "0", [0]]),
    (checks.deltas, "delta", "strictly between 0 and 1", [
        0, 1, 0.0, 1.0, -0.1, 1.5, NAN, INF, True, 0.1j, "0.1", None, [], np.ones((0,)), [[0.1]],
        [0.1, 0], [0.1, NAN], [0.1, True], [0.1, [0.2]], {0.1},
    ]),
    (checks.runs, "runs", "an integer n >= 1", [
        0, -1, 2**31 + 1, 10**30, True, 1.0, 1000.0, NAN, "3", None, [], [[1]], [1, 1], [-1],
        [2**31], [2**64], [1.0], [True], [0, True], np.array([True]), [1j], ["1"], [0, [1]],
        np.array(3), np.array([2**63], dtype=np.uint64), np.array([], dtype=int), {1}, object,
    ]),
)  # fmt: skip


@pytest.mark.parametrize(
    "check, argument, words, value",
    [(check, argument, words, x) for check, argument, words, values in REFUSED for x in values],
)
def test_wrong_values_are_refused(check, argument, words, value):
    error = refused(lambda: check(value), argument, words)
    assert argument != "x" or error.given is value
