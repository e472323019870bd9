"""Studies: equal to single calls, on the same noise, in a store and in files; refusals."""

import dataclasses
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest
from scipy import stats

import jaxelim as je
from jaxelim import cli
from jaxelim.simulation import api
from jaxelim.studies.grid import places
from tests.store.test_store import asked, interrupt

EASY = je.Instance.unstructured([1.0, 0.2, 0.0], name="easy")
PAIR = je.Instance.unstructured([[1.0, 0.5, 0.0], [0.5, 0.0, 0.2]], name="pair")
COMMON = dict(delta=[0.1, 0.02], runs=6, max_samples=2000, engine=je.Engine(devices=1))
ONE = {**COMMON, "delta": 0.1}
RULES = {"even": je.Uniform(), "oracle": je.Oracle([0.5, 0.4, 0.1])}


def made(**more) -> je.Study:
    return je.study([EASY, PAIR], je.BestArm(), RULES, **{**COMMON, **more})


@pytest.fixture(scope="module")
def whole() -> je.Study:
    return made()


def test_each_result_is_that_of_a_call(whole):
    assert whole.rules == ("even", "oracle") and whole.problems == ("best-arm",)
    assert whole.instances == ("easy", "pair[0]", "pair[1]") and len(whole) == 6
    for name, rule in RULES.items():
        for place, instance in zip(whole.instances, [EASY, *PAIR], strict=True):
            alone = je.simulate(instance, je.BestArm(), rule, **COMMON)
            assert whole[name, place].equals(alone), (name, place)
    own = {"delta": 0.3, "stopping": je.SelectiveElimination()}  # for a rule itself
    other = je.study(EASY, je.BestArm(), {"rule": je.Uniform(), **own}, **COMMON)["Uniform"]
    assert other.equals(je.simulate(EASY, je.BestArm(), je.Uniform(), **COMMON | own))
    one = whole.select(instance="easy")
    assert one["even"] is whole["even", "easy"] is whole["even", "easy", "best-arm"]
    assert list(one) == [("even", "easy", "best-arm"), ("oracle", "easy", "best-arm")]
    assert repr(one) == "<Study of 2 rules, 1 instance, 1 problem: 2 results>"


def test_keys_that_are_wrong(whole):
    several = r"3 results have these names: even, easy, best-arm; even, pair\[0\]"
    for key, words in ((("evn", "easy"), "even"), ("even", several),
                       (("even", "easy", "best-arm", "more"), "got .more.")):  # fmt: skip
        with pytest.raises(je.errors.ArgumentError, match=words):
            whole[key]
    with pytest.raises(je.errors.ArgumentError, match="instance"):
        whole.select(instance="hard")


def test_the_table(whole):
    rows = whole.summary().to_dict("records")
    assert len(rows) == 12 and rows[0]["rule"] == "even" and "problem" not in rows[0]
    tau = whole["even", "easy"].samples[0, 0]
    assert rows[0]["s"] == round(whole["even", "easy"].timings["seconds"], 2)
    assert rows[0]["mean tau"] == tau.mean() and str(whole) == str(whole.summary())
    pair = whole["even", "pair[0]"].timings["seconds"]  # the time of a result counts once
    assert np.isnan(rows[1]["s"]) and pair > 0 and rows[2]["s"] == round(pair, 2)
    drawn = [whole[key].timings["samples_drawn"] for key in whole if key[0] == "even"]
    assert drawn[1] == drawn[2] and sum(drawn) == pytest.approx(
        sum(whole[key].samples.max((0, 1)).sum() - 3 * 6 for key in whole if key[0] == "even"))
    assert max(map(len, str(whole).splitlines())) <= 100 and "<table" in whole._repr_html_()


def test_the_table_has_costs_where_a_result_has(whole):
    free, key = whole["even", "easy"], ("even", "easy", "best-arm")
    experiment = free.experiment.replace(instance=EASY.replace(costs=[1, 2, 5]))
    priced = dataclasses.replace(free, experiment=experiment)
    rows = je.Study({key: priced, ("free", *key[1:]): free}).summary().to_dict("records")
    spent = (priced.pulls[0] @ np.array([1, 2, 5])).mean(-1)
    assert [row["mean cost"] for row in rows[:2]] == pytest.approx(spent.tolist())
    assert all(np.isnan(row["mean cost"]) for row in rows[2:])
    assert "mean cost" not in whole.summary()


def test_rules_are_compared_on_the_same_noise(whole):
    found = whole.compare("even")
    assert len(found) == 6 and found["paired"].all()
    assert set(found["second"]) == {"even"}
    assert list(found["instance"])[::2] == list(whole.instances)
    single = je.compare({name: whole[name, "easy"] for name in RULES}, baseline="even")
    for ours, theirs in zip(*(x.to_dict("records") for x in (found, single)), strict=False):
        wanted = {**theirs, "holm_p": 0, "instance": "easy", "verdict": ""}
        np.testing.assert_equal({**ours, "holm_p": 0, "verdict": ""}, wanted)
    assert whole.compare().equals(found)
    with pytest.raises(je.errors.ArgumentError, match="baseline"):
        whole.compare("evn")


def test_one_line_of_progress():
    heard = []
    made(progress=lambda *told: heard.append(told))
    assert {told[1] for told in heard} == {2 * 3 * 6} and heard[-1][0] == 36
    assert all(a[0] <= b[0] for a, b in zip(heard, heard[1:], strict=False))


def test_a_file_gives_the_study_back(whole, tmp_path):
    whole.save(tmp_path / "one.nc")
    again = je.load_study(tmp_path / "one.nc")
    assert again.equals(whole) and list(again) == list(whole)
    assert not again.equals(whole.select(rule="even"))
    (tmp_path / "bad.nc").write_bytes((tmp_path / "one.nc").read_bytes()[:-500])
    with pytest.raises(je.errors.DamagedFileError, match="bad.nc"):
        je.load_study(tmp_path / "bad.nc")
    whole["even", "easy"].save(tmp_path / "result.nc")
    with pytest.raises(je.errors.StoreError, match="holds no study"):
        je.load_study(tmp_path / "result.nc")


def test_an_interrupted_study_goes_on(whole, tmp_path, monkeypatch):
    seen = asked(monkeypatch)
    with pytest.raises(je.errors.Interrupted, match="of 24 runs are in finished blocks") as caught:
        made(store=tmp_path, block=4, progress=partial(interrupt, runs=12))
    part = caught.value.result
    assert isinstance(part, je.Study) and 0 < len(part) < 6
    assert made(store=tmp_path, block=4).equals(whole)
    assert len(seen) == 24 + 4  # the block that was interrupted, twice
    assert je.load_store(tmp_path).equals(whole)
    with pytest.raises(je.errors.StoreError, match="no store"):
        je.load_store(tmp_path / "nowhere")


def stored(folder, **more):
    return je.study(EASY, je.BestArm(), {"even": je.Uniform()}, store=folder, **ONE | more)


@pytest.mark.slow
def test_studies_that_share_names_are_told_apart(tmp_path):
    by_delta = {delta: stored(tmp_path, delta=delta)["even"] for delta in (0.1, 0.01)}
    again = je.load_store(tmp_path)
    assert set(again.rules) == {"even (delta=0.1)", "even (delta=0.01)"}
    for delta, result in by_delta.items():
        assert again[f"even (delta={delta})"].equals(result)
    # Where they differ in much, the key names them.
    stored(tmp_path, stopping=je.SelectiveElimination(), threshold=je.GK16())
    found = je.load_store(tmp_path)
    assert len(found) == 3 and {len(name) for name in found.rules} == {len("even (12345678)")}
    top = je.simulate(EASY, je.TopM(2), je.Uniform(), store=tmp_path, **ONE)
    (again,) = je.load_store(tmp_path).select(problem="TopM(m=2)").results.values()
    assert again.equals(top)


def test_equal_settings_under_two_names_are_one_result(tmp_path):
    je.simulate(EASY, je.BestArm(), je.Uniform(), store=tmp_path, **ONE)
    whole = stored(tmp_path, runs=9)["even"]
    (found,) = je.load_store(tmp_path).results.values()
    assert found.equals(whole)


def test_runs_of_two_versions_are_named(tmp_path, monkeypatch):
    stored(tmp_path, runs=3)
    monkeypatch.setattr(jax, "__version__", "0.0.9")
    with pytest.warns(UserWarning, match=r"come from JAX 0\.0\.9.* and JAX .*, cpu\. Where"):
        both = stored(tmp_path)["even"]
    with pytest.warns(UserWarning, match="come from"):
        again = je.load_store(tmp_path)["even"]
    assert again.layout["computed_by"] == both.layout["computed_by"]
    monkeypatch.undo()
    alone = stored(tmp_path / "alone")["even"]  # and no warning
    assert alone.layout["computed_by"].startswith(f"JAX {jax.__version__}, NumPy {np.__version__}")


def test_what_is_left_out_is_named(tmp_path):
    stored(tmp_path, block=3)
    first, second = sorted(tmp_path.glob("blocks/*/*.npz"))
    second.write_bytes(second.read_bytes()[:-9])
    with pytest.warns(UserWarning, match=f"set aside: .*{second.name}"):
        found = je.load_store(tmp_path)["even"]
    assert found.runs.tolist() == [0, 1, 2] and first.exists()
    (tmp_path / first.parent / "cell.json").write_text('{"labels": []}')
    with pytest.warns(UserWarning, match="left out: .*cell.json, which lacks"):
        assert len(je.load_store(tmp_path)) == 0
    (tmp_path / first.parent / "cell.json").write_text('{"labels')
    for again in (lambda: je.load_store(tmp_path), lambda: stored(tmp_path)):
        with pytest.raises(je.errors.StoreError, match="cell.json.* cannot be read"):
            again()


def test_refused_combinations_are_named(monkeypatch):
    """With the exception's own class."""
    monkeypatch.setattr(api, "planned", None)  # nothing compiles
    where = r"of rule 'RAGE', instance 'easy', problem 'thresholding'"
    with pytest.raises(je.errors.UnsupportedError, match=where):
        je.study(EASY, [je.BestArm(), je.Thresholding(0.5)],
                 [je.Uniform(), {"rule": je.RAGE(), "stopping": je.Native()}],
                 stopping=je.LLR(), runs=2)  # fmt: skip
    tie = je.Instance.unstructured([1.0, 1.0], name="tie")
    with pytest.raises(je.errors.ArgumentError, match="rule 'Uniform', instance 'tie'"):
        je.study([EASY, tie], je.BestArm(), je.Uniform(), runs=2)
    for bad, words in {
        "rules": dict(rules=[]), "instances": dict(instances=[]), "sampling rule": dict(rules=3),
        "stoppin": dict(rules={"rule": je.Uniform(), "stoppin": 1}),
        "costs": dict(instances={"instance": EASY, "cost": [1, 2, 5]}),
        "under the key": dict(instances={"instance": None, "costs": [1, 2, 5]}),
        "problem such as": dict(problem=3), "an Instance": dict(instances=3),
        "lingape": dict(rules="lingap"), "linear-d10": dict(instances="linear-d1"),
        "block": dict(block=0), "progress": dict(progress=3),
    }.items():  # fmt: skip
        given = dict(instances=EASY, problem=je.BestArm(), rules=je.Uniform(), runs=2)
        with pytest.raises(je.errors.ArgumentError, match=bad):
            je.study(**{**given, **words})


def test_names_of_entries():
    """Of a list they are short where that tells entries apart."""

    def names(rules, instances=EASY, problem="best-arm"):
        return list(places(instances, problem, rules, stopping="llr", max_samples=99))

    assert names([je.LinGapE(), "uniform"])[0] == ("LinGapE", "easy", "best-arm")
    two = names([je.LinGapE(), je.LinGapE(rate=1.0)])
    assert [name for name, *_ in two] == ["LinGapE(rate=2.0)", "LinGapE(rate=1.0)"]
    assert [name for name, *_ in names([je.FWS(), je.FWS()])] == ["FWS() (0)", "FWS() (1)"]
    of_names = names(["ttucb", {"rule": "ebtci"}, "uniform"])
    assert [name for name, *_ in of_names] == ["ttucb", "ebtci", "Uniform"]
    problems = names(je.FWS(), problem=[je.TopM(1), "TopM(2)", "best-arm"])
    assert [name for *_, name in problems] == ["top-m", "TopM(2)", "best-arm"]
    priced = [{"instance": EASY, "costs": [1, 2, 5]}]
    (call,) = places(priced, "best-arm", ["uniform"]).values()
    assert call.instance == EASY.replace(costs=[1, 2, 5])
    shipped = names(je.FWS(), instances=["unstructured-k40"], problem="top-m")
    assert shipped == [("FWS", "unstructured-k40", "top-m")]


def test_the_command(whole, tmp_path, capsys, monkeypatch):
    """A file has the names of Python; the shell's study is Python's."""
    monkeypatch.chdir(tmp_path)
    EASY.to_json("easy.json")
    PAIR.to_json("pair.json")
    lines = """
    instances = ["easy.json", "pair.json"]
    problem = "best-arm"
    delta = [0.1, 0.02]
    max_samples = 2000
    engine = "Engine(devices=1)"
    [rules]
    even = "uniform"
    oracle = {rule = "Oracle(weights=[0.5, 0.4, 0.1])"}
    """
    (tmp_path / "study.toml").write_text(lines)
    given = ["study", "study.toml", "--runs", "6", "--store", "kept", "--output", "found.nc",
             "--figure", "found.png", "--baseline", "even"]  # fmt: skip
    assert cli.main(given) == 0
    said = capsys.readouterr().out
    assert str(whole.summary()).splitlines()[2].rsplit(maxsplit=1)[0] in said
    assert "ratio: mean number of samples over that of even" in said
    assert je.load_study("found.nc").equals(whole) and je.load_store("kept").equals(whole)
    assert (tmp_path / "found.png").stat().st_size > 20_000
    for text, words in {
        "instances = 1": "instances: got 1", "instancs = 1": "instances", "= 3": "readable file",
    }.items():  # fmt: skip
        (tmp_path / "bad.toml").write_text(text)
        assert cli.main(["study", "bad.toml"]) == 2
        assert words in capsys.readouterr().err
    assert cli.main(["study", "study.txt"]) == 2 and ".toml or .json" in capsys.readouterr().err


def test_the_figure(whole):
    """Three panels for each instance; the lines are the means."""
    figure = whole.figure(log=True)
    panels = np.array(figure.axes).reshape(3, 3)
    assert [axes.get_title() for axes in panels[0]] == [f"{x}, best-arm" for x in whole.instances]
    x = np.log(1 / np.array(COMMON["delta"]))
    means = whole["oracle", "pair[0]"].samples[0].mean(1)
    drawn = [line.get_xydata() for line in panels[0, 1].lines]
    assert any(np.allclose(xy, np.stack([x, means], 1)) for xy in drawn if len(xy) == 2)
    drawn = [line.get_xydata() for line in panels[1, 1].lines]
    assert any(np.allclose(xy, np.stack([x, means / x], 1)) for xy in drawn if len(xy) == 2)
    assert panels[0, 0].get_yscale() == "log" and panels[2, 0].get_yscale() == "linear"
    (legend,) = figure.legends
    words = [text.get_text() for text in legend.get_texts()]
    assert words[:2] == ["even", "oracle"] and "delta" in words
    with pytest.raises(je.errors.ArgumentError, match="one instance and problem"):
        je.figures.tau_figure(whole)
    assert whole.select(delta=0.02).figure().axes[0].get_title() == panels[0, 0].get_title()


@pytest.mark.slow
def test_the_figure_of_one_delta(tmp_path, capsys, monkeypatch):
    """A mark a rule: its mean and its interval, its errors, delta, and the lower bound."""
    one = je.study(EASY, je.BestArm(), {"even": je.Uniform(), "gap": je.LinGapE()}, delta=0.05,
                   runs=20, max_samples=5000)  # fmt: skip
    samples, errors = one.figure().axes
    assert [text.get_text() for text in errors.get_xticklabels()] == ["even", "gap"]
    bars = [bar.get_segments()[0] for bar in samples.collections]
    for place, name in enumerate(one.rules):
        taus = one[name].samples[0, 0]
        assert [[place, taus.mean()]] in [line.get_xydata().tolist() for line in samples.lines]
        half = stats.t.ppf(0.975, 19) * taus.std(ddof=1) / 20**0.5
        ends = [[place, taus.mean() - half], [place, taus.mean() + half]]
        assert any(np.allclose(bar, ends) for bar in bars)
    bound = je.bounds.sample_bound(0.05, je.complexity(EASY, je.BestArm()))
    assert any(np.allclose(line.get_ydata(), bound) for line in samples.lines)
    assert any(np.allclose(line.get_ydata(), 0.05) for line in errors.lines)
    assert one.figure(log=True).axes[0].get_yscale() == "log"
    monkeypatch.chdir(tmp_path)
    one.save("one.nc")
    assert cli.main(["plot", "one.nc", "-o", "drawn", "--figure", "comparison", "tau"]) == 0
    assert {path.name for path in Path("drawn").iterdir()} == {"comparison.png", "tau.png"}
    capsys.readouterr()


def test_show_opens_every_file(whole, tmp_path, capsys):
    """A study and a result."""
    whole.save(tmp_path / "a.nc")
    assert cli.main(["show", str(tmp_path / "a.nc")]) == 0
    assert capsys.readouterr().out == f"{whole.summary()}\n"
    assert cli.main(["show", str(tmp_path / "a.nc"), "--baseline", "oracle"]) == 0
    assert capsys.readouterr().out == f"{whole.summary()}\n{whole.compare('oracle')}\n"
    assert cli.main(["show", str(tmp_path / "a.nc"), "--baseline", "oracel"]) == 2
    said = capsys.readouterr()
    assert not said.out and said.err.count("\n") == 1 and "nearest: 'oracle'" in said.err
    whole["even", "easy"].save(tmp_path / "one.nc")
    assert cli.main(["show", str(tmp_path / "one.nc"), "--baseline", "even"]) == 2
    assert "baseline: got 'even'" in capsys.readouterr().err


def test_the_module_runs_the_command_line():
    command = [sys.executable, "-m", "jaxelim", "--version"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert said == f"jaxelim {je.__version__}\n"


def test_dir_has_the_public_names_alone():
    assert set(dir(je)) == {*je.__all__, "__doc__", "__name__", "__version__"}
