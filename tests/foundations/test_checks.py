"""Validators and exceptions: accepted values, and their form.

What is refused is in `tests/data/bad_input.tsv`.
"""

import pickle
from enum import IntEnum

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from jaxelim import checks
from jaxelim.errors import ArgumentError, JaxelimError, UnsupportedError, abbreviate, unknown_name
from tests.calls import refused

NAN, INF = float("nan"), float("inf")


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
    silent = type("Silent", (), {"__repr__": lambda self: 1 / 0})
    assert "Silent" in abbreviate(silent())
    for value, text in ((np.float64(1.5), "1.5"), (np.array([0.5, 2.0]), "[0.5, 2. ]"),
                        ([1, "a", None], "[1, 'a', None]")):  # fmt: skip
        assert abbreviate(value) == text


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
        assert refused(lambda: checks.real_array("x", value), "x", "finite").given is value


@pytest.mark.parametrize("value", [
    [1, 2.5], (1, 2.5), [np.int64(1), np.float32(2.5)], jnp.array([1, 2.5], dtype="float32"),
    np.array([2.5, 1])[::-1], [np.array(1), np.array(2.5)],
    np.array([1, 2.5]).view(np.recarray),
], ids=["list", "tuple", "scalars", "jax", "reversed", "nulldim", "subclass"])  # fmt: skip
def test_real_array_accepts_what_numpy_reads(value):
    array = checks.real_array("x", value)
    assert type(array) is np.ndarray and array.dtype == np.float64 and array.tolist() == [1.0, 2.5]


def test_a_number_beyond_float64_and_a_list_that_holds_itself_are_refused():
    endless: list = []
    endless.append(endless)
    for value in (np.array(["1e4000"], np.longdouble), endless):
        refused(lambda value=value: checks.real_array("x", value), "x", "finite")


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


@given(st.integers(1, 300), st.lists(st.integers(0, 2**31 - 1), min_size=1, unique=True))
def test_runs_by_number_and_by_index(n, indexes):
    several = indexes, tuple(indexes), np.array(indexes), np.array(indexes, dtype=np.uint64)
    first = list(range(n))
    for value, known in ((n, first), (np.int32(n), first), *((one, indexes) for one in several)):
        array = checks.runs(value)
        assert array.dtype == np.int64 and array.tolist() == known
        assert not np.shares_memory(array, value)
    assert checks.runs(range(5, 8)).tolist() == [5, 6, 7]
