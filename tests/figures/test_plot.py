"""`jaxelim plot`: all figures that results allow."""

import pytest

import jaxelim as je
from jaxelim import cli

pytestmark = pytest.mark.slow
INSTANCE = je.Instance.unstructured([1.0, 0.2, -0.5], name="three arms")



def test_files_draw_what_they_allow(tmp_path, capsys):
    """Two rules, the first observed by LLR and by elimination; the second has one delta."""
    common = dict(instance=INSTANCE, problem=je.BestArm(), rule=je.Uniform(), runs=8)
    both = je.LLR(), je.SelectiveElimination()
    je.simulate(**common, delta=[0.2, 0.05], stopping=both).save(tmp_path / "a.nc")
    je.simulate(**common, delta=[0.2], seed=1).save(tmp_path / "b.nc")
    paths = [str(tmp_path / "a.nc"), str(tmp_path / "b.nc")]
    for words, message in (
        (["--figure", "taus"], "nearest: 'tau'"),
        (["--figure", "ratio"], "observed by LLR() and by an elimination"),
        (["--format", "bmp"], "format"),
        (["-o", str(tmp_path / "tau.png")], "a folder"),
        ([paths[1]], "different rules or names"),
    ):
        assert cli.main(["plot", paths[1], *words]) == 2
        said = capsys.readouterr()
        assert message in said.err + said.out, words
    assert cli.main(["plot", str(tmp_path / "none.nc")]) == 2
    assert not list(tmp_path.glob("*.png"))

    assert cli.main(["plot", paths[0], "-o", str(tmp_path), "--format", "png", "pdf"]) == 0
    assert "no figure comparison: it needs" in capsys.readouterr().out
    names = {"tau", "survival", "delta", "ratio", "active", "pulls"}
    assert {path.stem for path in tmp_path.glob("*.png")} == names
    assert {path.stem for path in tmp_path.glob("*.pdf")} == names
    new = tmp_path / "new" / "figures"
    assert cli.main(["plot", *paths, "-o", str(new), "--log", "--figure", "comparison"]) == 0
    assert [path.name for path in new.iterdir()] == ["comparison.png"]
