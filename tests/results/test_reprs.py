"""How results show in notebooks, in pandas and at the command line."""

from html.parser import HTMLParser

import numpy as np
import pytest

import jaxelim as je
from jaxelim import cli
from jaxelim.lower_bound import Complexity
from jaxelim.lower_bound.pieces import Pieces
from jaxelim.tables import ROWS, as_html
from tests.results.result_cases import COINS, MEANS, PLANE, Mine, result_of

EVIL = je.Instance.unstructured(MEANS, je.Bernoulli(), name="<script>alert('&')</script>")
BATCH = je.Instance.unstructured([MEANS, (0.1, 0.9, 0.2)], je.Bernoulli(), name="two")
PIECES = Pieces(*np.zeros((3, 1, 2)))


def found(value, allocation):
    """A `Complexity` of made-up numbers."""
    value, rest = np.asarray(value), np.zeros(2)
    return Complexity(
        value, np.asarray(allocation), rest, value * 0, value, value > 0, rest, PIECES
    )


class Parsed(HTMLParser):
    """Tags, attributes and cells of HTML; its tags must be balanced."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.cells, self.text = [], [], [], ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open.append(tag)
        assert not attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if self.open[-1] == "td":
            self.cells.append(data)


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (result_of(EVIL), ["LinGapE(rate=2.0) on <script>alert('&')</script>", "samples in"]),
        (result_of(EVIL).summary(), ["mean tau", "errors"]),
        (EVIL, ["K = 3 arms, d = 3, family Bernoulli()", "mean"]),
        (PLANE, ["plane: K = 3 arms, d = 2, noise_std 0.1", "x1", "0.8"]),
        (BATCH, ["two: 2 instances", "largest mean", "0.9"]),
        (found(0.5, [0.25, 0.75]), ["Complexity: H* 0.5, T* 2", "w*", "0.75"]),
        (found([0.5, 0.25], [[0.5, 0.5]] * 2), ["Complexity of 2 instances", "T*"]),
    ],
    ids=["result", "summary", "instance", "linear", "batch", "complexity", "complexities"],
)
def test_things_show_as_html(thing, words):
    parsed = Parsed(thing._repr_html_())
    assert set(parsed.tags) <= {"div", "p", "table", "thead", "tbody", "tr", "th", "td"}
    for word in words:
        assert word in parsed.text


def test_html_has_the_numbers_of_the_summary():
    summary = result_of().summary()
    cells = Parsed(summary._repr_html_()).cells
    lines = str(summary).split("\n")[2 : 2 + len(summary.rows)]
    assert cells == " ".join(lines).split() and len(cells) == 4 * len(summary.rows[0])


def test_long_tables_are_cut():
    wide = je.Instance.unstructured(np.linspace(0, 1, 2000))
    assert len(wide._repr_html_()) < 4000 and "and 1980 more rows" in wide._repr_html_()
    assert "more rows" not in as_html("", [{"a": 1}] * ROWS)


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
