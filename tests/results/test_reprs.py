"""How results show in notebooks, in pandas and at the command line."""

import numpy as np
import pytest

import jaxelim as je
from jaxelim import cli
from tests.results.result_cases import COINS, MEANS, Mine, result_of

EVIL = je.Instance.unstructured(MEANS, je.Bernoulli(), name="<script>alert('&')</script>")


@pytest.mark.parametrize("thing", [result_of(EVIL), result_of(EVIL).summary()], ids=["a", "b"])
def test_results_show_as_html(thing):
    found = thing._repr_html_()
    assert "<script>" not in found and "&lt;script&gt;" in found
    assert all(word in found for word in ("mean tau", "samples in", "<table"))


def test_a_summary_as_a_data_frame():
    summary = result_of().summary()
    frame = summary.to_pandas()
    assert list(frame.columns) == list(summary.rows[0]) and len(frame) == 4
    np.testing.assert_array_equal(frame["mean tau"], [row["mean tau"] for row in summary.rows])
    assert frame.attrs == {"title": summary.title, "notes": list(summary.notes)}


def test_the_command_line_shows_a_file(tmp_path, capsys):
    result = result_of(rule=Mine())
    result.save(tmp_path / "r.nc")
    assert cli.main(["show", str(tmp_path / "r.nc")]) == 0
    text = capsys.readouterr().out
    assert text.startswith(str(result.summary())) and f"version {je.__version__}" in text
    assert result.settings["instance_sha256"] in text and COINS.name in text
    (tmp_path / "r.nc").write_text("hello")
    assert cli.main(["show", str(tmp_path / "r.nc")]) == 2
    assert "it is no NetCDF file" in capsys.readouterr().err
