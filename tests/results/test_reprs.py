"""How results show in notebooks, in pandas and at the command line."""

import pickle

import numpy as np
import pandas as pd
import pytest

import jaxelim as je
from jaxelim import cli
from jaxelim.tables import aligned
from tests.results.result_cases import COINS, MEANS, Mine, result_of

EVIL = je.Instance.unstructured(MEANS, je.Bernoulli(), name="<script>alert('&')</script>")


@pytest.mark.parametrize("thing", [result_of(EVIL), result_of(EVIL).summary()], ids=["a", "b"])
def test_results_show_as_html(thing):
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
