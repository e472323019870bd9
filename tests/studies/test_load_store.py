"""What a store gives back: all that it holds, each under a name of its own, or a word."""

import jax
import numpy as np
import pytest

import jaxelim as je

EASY = je.Instance.unstructured([1.0, 0.2, 0.0], name="easy")
SHARED = dict(runs=6, max_samples=2000, engine=je.Engine(devices=1))


def stored(folder, **more):
    return je.study(EASY, je.BestArm(), {"even": je.Uniform()}, store=folder, **SHARED | more)


@pytest.mark.slow
def test_studies_that_share_names_are_told_apart(tmp_path):
    by_delta = {delta: stored(tmp_path, delta=delta)["even"] for delta in (0.1, 0.01)}
    again = je.load_store(tmp_path)
    assert set(again.rules) == {"even (delta=0.1)", "even (delta=0.01)"}
    for delta, result in by_delta.items():
        assert again[f"even (delta={delta})"].equals(result)
    # Where they differ in much, the key names them.
    stored(tmp_path, delta=0.1, stopping=je.SelectiveElimination(), threshold=je.GK16())
    found = je.load_store(tmp_path)
    assert len(found) == 3 and {len(name) for name in found.rules} == {len("even (12345678)")}
    top = je.simulate(EASY, je.TopM(2), je.Uniform(), delta=0.1, store=tmp_path, **SHARED)
    (again,) = je.load_store(tmp_path).select(problem="TopM(m=2)").results.values()
    assert again.equals(top)


def test_equal_settings_under_two_names_are_one_result(tmp_path):
    je.simulate(EASY, je.BestArm(), je.Uniform(), delta=0.1, store=tmp_path, **SHARED)
    whole = stored(tmp_path, delta=0.1, runs=9)["even"]
    (found,) = je.load_store(tmp_path).results.values()
    assert found.equals(whole)


def test_runs_of_two_versions_are_named(tmp_path, monkeypatch):
    stored(tmp_path, delta=0.1, runs=3)
    monkeypatch.setattr(jax, "__version__", "0.0.9")
    with pytest.warns(UserWarning, match=r"come from JAX 0\.0\.9.* and JAX .*, cpu\. Where"):
        both = stored(tmp_path, delta=0.1)["even"]
    with pytest.warns(UserWarning, match="come from"):
        again = je.load_store(tmp_path)["even"]
    assert again.layout["computed_by"] == both.layout["computed_by"]
    monkeypatch.undo()
    alone = stored(tmp_path / "alone", delta=0.1)["even"]  # and no warning
    assert alone.layout["computed_by"].startswith(f"JAX {jax.__version__}, NumPy {np.__version__}")


def test_what_is_left_out_is_named(tmp_path):
    stored(tmp_path, delta=0.1, block=3)
    first, second = sorted(tmp_path.glob("blocks/*/*.npz"))
    second.write_bytes(second.read_bytes()[:-9])
    with pytest.warns(UserWarning, match=f"set aside: .*{second.name}"):
        found = je.load_store(tmp_path)["even"]
    assert found.runs.tolist() == [0, 1, 2] and first.exists()
    (tmp_path / first.parent / "cell.json").write_text('{"labels": []}')
    with pytest.warns(UserWarning, match="left out: .*cell.json, which lacks"):
        assert len(je.load_store(tmp_path)) == 0
    (tmp_path / first.parent / "cell.json").write_text('{"labels')
    for again in (lambda: je.load_store(tmp_path), lambda: stored(tmp_path, delta=0.1)):
        with pytest.raises(je.errors.StoreError, match="cell.json.* cannot be read"):
            again()
