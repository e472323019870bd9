"""`jaxelim plot`: all figures that results allow."""

import pytest

import jaxelim as je
from jaxelim import cli

pytestmark = pytest.mark.slow
INSTANCE = je.Instance.unstructured([1.0, 0.2, -0.5], name="three arms")


@pytest.fixture(scope="module")
def results():
    """Two rules, both observed by LLR and by elimination; the second has one delta."""
    stopping = je.LLR(), je.SelectiveElimination()
    one = je.simulate(INSTANCE, je.BestArm(), je.Uniform(), delta=[0.2, 0.05], runs=8,
                      stopping=stopping)  # fmt: skip
    other = je.simulate(INSTANCE, je.BestArm(), je.Uniform(), delta=[0.2], runs=8, seed=1,
                        stopping=je.LLR())  # fmt: skip
    return one, other


def test_files_draw_what_they_allow(results, tmp_path, capsys):
    paths = [tmp_path / "a.nc", tmp_path / "b.nc"]
    for one, path in zip(results, paths, strict=True):
        one.save(path)
    assert cli.main(["plot", str(paths[0]), "-o", str(tmp_path), "--format", "png", "pdf"]) == 0
    told = capsys.readouterr().out
    names = {"tau", "survival", "delta", "ratio", "active", "pulls"}
    assert {path.stem for path in tmp_path.glob("*.png")} == names
    assert {path.stem for path in tmp_path.glob("*.pdf")} == names
    assert "no figure comparison: it needs" in told
    for path in tmp_path.glob("*.png"):
        path.unlink()
    new = tmp_path / "new" / "figures"
    given = ["plot", *map(str, paths), "-o", str(new), "--log", "--figure", "comparison"]
    assert cli.main(given) == 0
    assert [path.name for path in new.iterdir()] == ["comparison.png"]


def test_bad_plots_are_refused(results, tmp_path, capsys):
    path = tmp_path / "a.nc"
    results[1].save(path)
    for words, message in (
        (["--figure", "taus"], "nearest: 'tau'"),
        (["--figure", "ratio"], "observed by LLR() and by an elimination"),
        (["--format", "bmp"], "format"),
        (["-o", str(tmp_path / "tau.png")], "a folder"),
        ([str(path)], "different rules or names"),
    ):
        assert cli.main(["plot", str(path), *words]) == 2
        said = capsys.readouterr()
        assert message in said.err + said.out, words
    assert cli.main(["plot", str(tmp_path / "none.nc")]) == 2
    assert not list(tmp_path.glob("*.png"))
