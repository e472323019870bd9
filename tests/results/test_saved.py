"""Results in files: every part comes back, and files that are no result are refused.

The results are of made-up arrays: nothing compiles.
"""

import dataclasses
import os
import pickle
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import jaxelim as je
from jaxelim import catalogue, cli, families, problems
from jaxelim.contracts import Traits
from jaxelim.simulation.experiment import Experiment
from jaxelim.simulation.results.descriptions import ARRAYS, checksum, hash_of, made
from jaxelim.tables import aligned
from jaxelim.text import text_of
from jaxelim.thresholds import KaufmannKoolen

MEANS = (0.5, 0.3, 0.2)
COINS = je.Instance.unstructured(MEANS, je.Bernoulli(), name="coins")
PLANE = je.Instance([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], [1.0, 0.2], 0.1, name="plane")
ITEMS = np.array([[1.0, 0.0], [0.5, 0.5], [-1 / 3, 0.7]])
Y = np.array([[[1.0, -1.0]], [[-1.0, 1.0]]])


def larger(theta):
    return jnp.argmax(theta).astype(jnp.int32)


@dataclasses.dataclass(frozen=True)
class Mine(je.contracts.SamplingRule):
    rate: float = 1.5
    traits: ClassVar[Traits] = Traits()


@dataclasses.dataclass(frozen=True)
class MyProblem(je.BestArm):
    shift: float = 0.25


@dataclasses.dataclass(frozen=True)
class MyFamily(je.Poisson):
    share: float = 0.5


@dataclasses.dataclass(frozen=True)
class MyStop(je.SelectiveElimination):
    name: ClassVar[str] = "my-stop"


@dataclasses.dataclass(frozen=True)
class MyThreshold:
    factor: float = 2.0

    def __call__(self, t, delta):
        return self.factor * jnp.log((1 + t) / delta)


OWN = {
    "rule": Mine(), "problem": MyProblem(), "threshold": MyThreshold(0.1 + 0.2),
    "stopping": (je.LLR(), MyStop()), "elimination": je.Resets(MyStop(), MyThreshold(), 3.0),
}  # fmt: skip

RULES = [
    *(rule() for rule in (*catalogue.rules().values(), *catalogue.presets().values())),
    je.LinGapE(rate=0.1 + 0.2), je.LUCB(pulls=2), je.Oracle([0.25, 0.35, 0.4]),
    je.TopTwo("ucb", "rs", share="ids", select="tracking"),
    je.TrackAndStop(gap_share=0.3, schedule=7), je.OptimisticTaS(gap_share=1e-7),
]  # fmt: skip
PROBLEMS = [
    je.BestArm(), je.BestArm(epsilon=0.1), je.BestArm(items=ITEMS), je.BestArm(reference=0.25),
    je.TopM(2), je.Thresholding(-1 / 3),
]  # fmt: skip
FAMILIES = [
    *(kind() for kind in families.KINDS), je.Gaussian((0.1, 0.2, 0.3)), je.Gaussian(0.1 + 0.2),
    je.GaussianUnknownVariance("glr"),
]  # fmt: skip
STOPPING = [kind() for kind in catalogue.stopping_rules().values()]
ELIMINATIONS = [
    None, je.SelectiveElimination(), je.FullElimination(),
    je.Resets(je.FullElimination(), je.Heuristic(), 2.5), je.Resets(je.SelectiveElimination()),
]  # fmt: skip
THRESHOLDS = [
    je.Heuristic(), je.GK16(), je.thresholds.LinearThreshold(2, 1.0, 1.1),
    KaufmannKoolen(6, 2, True), je.Mixture((3.0, 30.0), 3),
]  # fmt: skip


def result_of(instance: Any = COINS, width: int | None = None, **changes: Any) -> je.Result:
    """A result of made-up numbers; `width`: of its answers."""
    problem = changes.get("problem", je.BestArm())
    stopping = changes.pop("stopping", (je.LLR(), je.SelectiveElimination()))
    deltas, runs = np.array([0.1, 0.01]), np.array([4, 7, 8, 100])
    lead = (instance.size,) if instance.batched else ()
    shape = (*lead, len(stopping), deltas.size, runs.size)
    rng = np.random.default_rng(5)
    width = instance.K if width is None else width
    samples = rng.integers(50, 90, shape).astype(np.int32)
    times = rng.integers(0, 50, (*shape, width)).astype(np.int32)
    usual = {field.name: field.default for field in dataclasses.fields(Experiment)}
    call = usual | dict(
        instance=instance, problem=problem, rule=je.LinGapE(), delta=deltas, stopping=stopping,
        runs=runs, seed=3, max_samples=1000, initial_pulls=1,
        ridge=instance.family.ridge_of(None, instance),
    )  # fmt: skip
    call |= {name: changes.pop(name) for name in call.keys() & changes.keys()}
    given = dict(
        samples=samples, stopped=rng.random(shape) < 0.8,
        answer=rng.random((*shape, width)) < 0.5, correct=rng.random(shape) < 0.9,
        pulls=rng.integers(1, 30, (*shape, instance.K)).astype(np.int32), elimination_times=times,
        tests_stopping=rng.integers(0, 2**40, shape), tests_sampling=rng.integers(0, 9, shape),
        solves=None, timings={"seconds": 0.1 + 0.2, "compile_seconds": 1 / 3,
                              "samples_drawn": 12345},
        layout={"lanes": 16, "form": None, "entrance": "lanes"},
        origin={"proven": "it was not simulated", "version": je.__version__, "revision": 5,
                "instance_sha256": hash_of(instance)},
    )  # fmt: skip
    return je.Result(experiment=Experiment.unchecked(**call), **given | changes)


def back(result, tmp_path, **parts):
    """The result from a file of it."""
    result.save(tmp_path / "result.nc")
    return je.load_result(tmp_path / "result.nc", **parts)


def assert_same(found, result):
    """Equal in every part and text; `equals` compares dtypes and numbers."""
    assert found.equals(result) and result.equals(found)
    for field in dataclasses.fields(je.Result):
        if field.name not in (*ARRAYS, "experiment"):
            mine, theirs = getattr(found, field.name), getattr(result, field.name)
            assert mine == theirs and type(mine) is type(theirs), field.name
    assert found.instance.name == result.instance.name
    assert str(found.summary()) == str(result.summary())
    assert found.to_xarray().identical(result.to_xarray())


def test_every_register_has_its_cases():
    have = {type(one).__name__ for one in (*RULES, *PROBLEMS, *FAMILIES, *STOPPING, *THRESHOLDS)}
    have |= {"HalfSpaces"}  # has a function of one's own
    known = [*catalogue.rules().values(), *catalogue.stopping_rules().values(), *families.KINDS]
    known += [getattr(problems, name) for name in problems.__all__]
    known += catalogue.names("threshold").values()
    assert {kind.__name__ for kind in known} <= have


@pytest.mark.parametrize("n", range(len(PROBLEMS)))
def test_parts_come_back(n, tmp_path):
    """Each problem, threshold, elimination and some rules, with every stopping rule."""
    problem, threshold = PROBLEMS[n], THRESHOLDS[n % len(THRESHOLDS)]
    items = problem.name == "best-item"
    result = result_of(PLANE if items else COINS, problem=problem, rule=RULES[-n],
                       threshold=threshold, elimination=ELIMINATIONS[n % len(ELIMINATIONS)],
                       stopping=tuple(STOPPING))  # fmt: skip
    if len(problem.times_axes) == 2:
        pairs = np.stack([result.elimination_times] * 3, -1)
        result = dataclasses.replace(result, elimination_times=pairs)
    found = back(result, tmp_path)
    assert_same(found, result)
    for name in ("rule", "threshold", "elimination"):
        part = getattr(result, name)
        assert getattr(found, name) == part and hash(getattr(found, name)) == hash(part)
    assert float(found.threshold(50.0, 0.1)) == float(threshold(50.0, 0.1))
    if items:
        np.testing.assert_array_equal(found.problem.items, ITEMS)


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_rules_come_back(rule):
    """From their texts, of which a file is made."""
    found = made(text_of("rule", rule))
    assert found == rule and hash(found) == hash(rule) and found.traits == rule.traits


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_families_come_back(family, tmp_path):
    means, source = MEANS, None
    if isinstance(family, je.Paired):
        means, source = None, je.Recorded(np.eye(3) * [[1], [0.5], [0.25]], "bootstrap", True)
    result = result_of(je.Instance.unstructured(means, family, source=source, name="mine"))
    found = back(result, tmp_path)
    assert_same(found, result)
    assert found.instance == result.instance and found.instance.family == family


def test_half_spaces_come_back_if_passed(tmp_path):
    problem = je.HalfSpaces(larger, Y, np.array([[0.1], [1 / 3]]))
    instance = je.Instance(np.eye(2), [1.0, 0.5])
    result = result_of(instance, width=2, problem=problem, elimination_times=None)
    text = back(result, tmp_path)
    assert text.problem == str(problem) and text.equals(result)
    with pytest.raises(je.errors.ArgumentError, match=r"got .*load_result\(path, problem=...\)"):
        text.efficiency()
    assert_same(back(result, tmp_path, problem=problem), result)
    other = je.HalfSpaces(larger, Y, np.array([[0.1], [0.25]]))
    with pytest.raises(je.errors.ArgumentError, match="got HalfSpaces.* which the file holds"):
        je.load_result(tmp_path / "result.nc", problem=other)


def test_batches_and_names(tmp_path):
    batch = je.Instance.unstructured([MEANS, (0.1, 0.9, 0.2)], je.Bernoulli(), name="émile <b>")
    result = result_of(batch, solves=np.arange(32).reshape(2, 2, 2, 4))
    assert_same(back(result, tmp_path), result)
    one = result_of(je.Instance(np.eye(2), [1.0, 0.5]))
    assert_same(back(one, tmp_path), one)


def test_large_parts_come_back(tmp_path):
    """HDF5 has attributes of 64 kB, unless they are strings of variable length."""
    items = np.random.default_rng(1).standard_normal((2000, 3))
    instance = je.Instance.unstructured(MEANS)
    result = result_of(instance, width=2000, problem=je.BestArm(items=items))
    found = back(result, tmp_path)
    assert found.equals(result) and (tmp_path / "result.nc").stat().st_size > 2**17
    np.testing.assert_array_equal(found.problem.items, items)


def test_parts_of_ones_own_are_text_until_they_are_passed(tmp_path):
    instance = je.Instance.unstructured(MEANS, MyFamily())
    result = result_of(instance, **OWN)
    text = back(result, tmp_path)
    assert text.equals(result) and result.equals(text)
    assert text.rule == "Mine(rate=1.5)" and repr(text.rule) == "Mine(rate=1.5)"
    assert text.threshold == repr(MyThreshold(0.1 + 0.2))
    assert repr(text.instance.family) == repr(MyFamily())
    assert str(text.summary()) == str(result.summary())
    assert text.to_xarray().identical(result.to_xarray())
    passed = dict(family=MyFamily(), **OWN)
    assert_same(back(result, tmp_path, **passed), result)
    # The text is saved as what it was.
    assert_same(back(text, tmp_path, **passed), result)
    for name, wrong in (("rule", Mine(2.5)), ("rule", je.LinGapE()), ("stopping", je.Native()),
                        ("family", MyFamily(0.25)), ("threshold", MyThreshold(1.0)),
                        ("elimination", je.Resets(MyStop()))):  # fmt: skip
        with pytest.raises(je.errors.ArgumentError, match=name):
            je.load_result(tmp_path / "result.nc", **{name: wrong})


def test_what_a_file_cannot_name_is_refused(tmp_path):
    def nested(t, delta):
        return t

    for threshold in (lambda t, delta: t, nested):
        result = result_of(threshold=threshold)
        with pytest.raises(je.errors.ArgumentError, match=r"^threshold: .*frozen .*not a lambda"):
            result.save(tmp_path / "no.nc")
        assert not list(tmp_path.iterdir())
        assert result.equals(result) and not result.equals(result_of())
    resets = result_of(elimination=je.Resets(MyStop(), lambda t, d: t))
    for call, given, words in (
        (resets.save, tmp_path / "no", "^elimination"), (result_of().save, 3, "^path"),
        (result_of().save, tmp_path / "none" / "r.nc", "there is no folder"),
        (result_of().equals, 3, "^other: got 3"),
    ):  # fmt: skip
        with pytest.raises(je.errors.ArgumentError, match=words):
            call(given)


def test_results_that_differ_are_not_equal():
    """Every part and array counts; names, timings and layout do not."""
    result = result_of()
    renamed = je.Instance(COINS.arms, COINS.theta, name="others", family=COINS.family)
    other = je.Instance.unstructured((0.5, 0.3, 0.1), je.Bernoulli(), name="coins")
    hashes = [result_of(one).settings["instance_sha256"] for one in (COINS, renamed, other)]
    assert hashes[0] == hashes[1] != hashes[2]
    for same in (result_of(), result_of(renamed), result_of(timings={}, layout={})):
        assert result.equals(same) and same.equals(result)
    for changes in (dict(rule=je.LinGapE(1.0)), dict(problem=je.TopM(1)), dict(threshold=je.GK16()),
                    dict(stopping=(je.LLR(), je.FullElimination())), dict(solves=result.samples),
                    dict(elimination=je.FullElimination()), dict(elimination_times=None),
                    dict(seed=4), dict(instance=other)):  # fmt: skip
        assert not result.equals(result_of(**changes)) and not result_of(**changes).equals(result)
    for name in ARRAYS:
        if getattr(result, name) is not None:
            array = np.array(getattr(result, name))
            array.ravel()[-1] = ~array.ravel()[-1] if array.dtype == bool else array.ravel()[-1] + 1
            assert not result.equals(dataclasses.replace(result, **{name: array})), name
    assert not result.equals(dataclasses.replace(result, samples=result.samples.astype(np.int64)))


def test_xarray_opens_the_file_and_the_command_line_shows_it(tmp_path, capsys):
    result = result_of(rule=Mine())
    result.save(tmp_path / "r.nc")
    with xr.open_dataset(tmp_path / "r.nc", engine="h5netcdf") as data:
        np.testing.assert_array_equal(data["samples"], result.samples)
        np.testing.assert_array_equal(data["theta"], MEANS)
        assert data["arms"].dims == ("arm", "dimension") and data.attrs["rule"] == repr(result.rule)
        assert data.attrs["revision"] == 5 and data.attrs["version"] == je.__version__
    assert cli.main(["show", str(tmp_path / "r.nc")]) == 0
    text = capsys.readouterr().out
    assert text.startswith(str(result.summary())) and f"version {je.__version__}" in text
    assert result.settings["instance_sha256"] in text and COINS.name in text
    (tmp_path / "r.nc").write_text("hello")
    assert cli.main(["show", str(tmp_path / "r.nc")]) == 2
    assert "it is no NetCDF file" in capsys.readouterr().err


def test_damaged_and_foreign_files_are_refused(tmp_path):
    path = tmp_path / "r.nc"
    result_of().save(path)
    whole = path.read_bytes()
    # Each byte may be free space; a flip of each of 20 either shows or changes nothing.
    shown = 0
    for at in np.linspace(8, len(whole) - 1, 20).astype(int):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            assert je.load_result(path).equals(result_of())
        except je.errors.DamagedFileError:
            shown += 1
        except je.errors.StoreError as error:  # the name of an attribute
            assert "no result" in str(error) or "format" in str(error)
            shown += 1
    assert shown >= 4
    cut = [whole[:size] for size in (100, len(whole) // 2, len(whole) - 1)]
    for contents in (*cut, b"", b"hello", b"CDF\x01"):
        path.write_bytes(contents)
        damaged = je.errors.DamagedFileError, "no readable NetCDF"
        kind, words = damaged if contents in cut else (je.errors.StoreError, "it is no NetCDF file")
        with pytest.raises(kind, match=words):
            je.load_result(path)
    result_of().to_xarray().to_netcdf(path, engine="h5netcdf")  # has no theta and no checksum
    os.mkfifo(tmp_path / "pipe")
    for name, words in (("r.nc", "it holds no result of jaxelim"), ("none.nc", "cannot be read"),
                        ("", "is no regular file"), ("pipe", "is no regular file")):  # fmt: skip
        with pytest.raises(je.errors.StoreError, match=words):
            je.load_result(tmp_path / name)
    with pytest.raises(je.errors.ArgumentError, match="^path: got None"):
        je.load_result(None)


def rewritten(path, change, **parts):
    """A file with other attributes and a checksum that goes with them."""
    result_of(**parts).save(path)
    with xr.open_dataset(path, engine="h5netcdf") as opened:
        data = opened.load()
    change(data.attrs)
    data.attrs["checksum"] = checksum(data, data.attrs["experiment"])
    data.to_netcdf(path, engine="h5netcdf")


def test_files_of_other_versions(tmp_path):
    path = tmp_path / "r.nc"

    def text(old, new):
        def change(attributes):
            assert old in attributes["experiment"]
            attributes["experiment"] = attributes["experiment"].replace(old, new)

        return change

    rewritten(path, lambda attributes: attributes.update(jaxelim_result=3))
    with pytest.raises(je.errors.StoreError, match="its format is 3; .* reads 2"):
        je.load_result(path)
    rewritten(path, text('"value":"LinGapE()"', '"value":"LinGapE(more=1)"'))
    with pytest.raises(je.errors.StoreError, match=r"its rule is LinGapE.* load_result\(path, ru"):
        je.load_result(path)
    rewritten(path, text('"value":"LinGapE()"', '"value":"Later()"'))
    assert je.load_result(path).rule == "LinGapE(rate=2.0)"
    # Only jaxelim's own classes are made from a file; nothing is imported.
    change = text("tests.results.test_saved.MyThreshold", "subprocess.Popen")
    rewritten(path, change, threshold=MyThreshold())
    assert je.load_result(path).threshold == repr(MyThreshold())


def test_texts_of_plain_values():
    for value in (None, True, 3, 0.1, np.inf, -np.inf, "a", (1, (2.5, "x")), [1], {"a": (1,)}):
        assert made(text_of("x", value)) == value
    assert np.isnan(made(text_of("x", np.nan)))
    for array in (np.arange(6).reshape(2, 3), np.array([0.1, np.nan]), np.array([True, False])):
        found = made(text_of("x", array))
        np.testing.assert_array_equal(found, array)
        assert found.dtype == array.dtype
    for wrong in (object(), int, lambda: 0, {1, 2}):
        with pytest.raises(je.errors.ArgumentError, match="^x: got"):
            text_of("x", wrong)


def test_results_show_as_html():
    evil = je.Instance.unstructured(MEANS, je.Bernoulli(), name="<script>alert('&')</script>")
    for thing in (result_of(evil), result_of(evil).summary()):
        found = thing._repr_html_()
        assert "<script>" not in found and "&lt;script&gt;" in found
        assert all(word in found for word in ("mean tau", "samples in", "<table"))


def test_a_summary_is_a_data_frame():
    result = result_of()
    summary = result.summary()
    assert isinstance(summary, pd.DataFrame) and len(summary) == 4
    tau = np.where(result.stopped, result.samples, np.nan)
    np.testing.assert_allclose(summary["mean tau"], np.nanmean(tau, -1).ravel())
    assert str(summary).splitlines() == [
        summary.title, *aligned(summary.to_dict("records")), *summary.notes]  # fmt: skip
    assert pickle.loads(pickle.dumps(summary)).notes == summary.notes
