"""Rewards as callers have them: scalars, columns, tables, CSV files; and their law."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import jaxelim as je
from jaxelim.live import log, report
from tests.live.live_cases import NAMES, coins

pytestmark = pytest.mark.xdist_group("live")
ROWS = [("red", 1), ("green", 0), ("blue", 0), ("red", 0), ("green", 1)]
ARMS, REWARDS = map(list, zip(*ROWS, strict=True))


def lines(separator: str, words=(0, 1), end: str = "\n", head: str = "") -> str:
    return head + end.join(f"{arm}{separator}{words[x]}" for arm, x in ROWS) + end


READ = {
    "commas": lines(","),
    "a title": lines(",", head="variant,converted\n"),
    "semicolons, a mark and CRLF": "\ufeff" + lines(";", end="\r\n", head="arm;reward\r\n"),
    "tabs": lines("\t", head="a\tb\n"),
    "UTF-16": lines("\t", head="a\tb\n").encode("utf-16"),
    "True and False": lines(",", (False, True)),
    "yes and no": lines(" ; ", ("no", "Yes"), head="arm;converted?\n"),
    "exponents": lines(",", ("0.0", "1e0")),
    "blank lines and quotes": '"a","b"\n\n' + lines(",").replace("\n", "\n\n"),
    "a title in quotes": '"won; yes or no",b\n' + lines(","),
}
COLUMNS = {"id": list("vwxyz"), "won": REWARDS, "variant": ARMS}
FRAME = pd.DataFrame(COLUMNS)
NAMED = dict(arm="variant", reward="won")
TOLD = {
    "bools": (ARMS, list(map(bool, REWARDS))),
    "NumPy": (np.array(ARMS), np.array(REWARDS, np.int8)),
    "columns": (FRAME["variant"], FRAME["won"].astype(float)),
    "columns by their index": (FRAME["variant"], FRAME["won"][::-1]),
    "other numbers": (ARMS, [True, np.False_, 0.0, np.int64(0), np.float32(1)]),
    "a frame of two": (FRAME[["variant", "won"]],),
    "a mapping": (COLUMNS, NAMED),
    "a frame": (FRAME, NAMED),
    "categories": (FRAME.astype({"variant": "category", "won": bool}), NAMED),
    "nullable": (FRAME.astype({"won": "Int64"}), NAMED),
    "words": (FRAME.assign(won=["yes" if x else "no" for x in REWARDS]), NAMED),
    "structured": (np.array(list(zip(ARMS, REWARDS, strict=True)),
                            [("variant", "U9"), ("won", int)]), NAMED),
    "a data set": (xr.Dataset({k: ("row", v) for k, v in COLUMNS.items()}), NAMED),
}  # fmt: skip


def of_file(tmp_path: Path, contents: str | bytes, **given) -> je.LiveRun:
    path, one = tmp_path / "table.csv", coins()
    path.write_bytes(contents.encode() if isinstance(contents, str) else contents)
    one.tell(path, **given)
    return one


def test_rewards_in_every_form(tmp_path):
    """Sequences, tables, and files of two columns and of more."""
    text = "id;won;variant;price\n" + "".join(f"{i};{x};{a};1,5\n" for i, (a, x) in enumerate(ROWS))
    found = {name: of_file(tmp_path, contents) for name, contents in READ.items()}
    found["a file of four columns"] = of_file(tmp_path, text, **NAMED)
    for name, (*rows, last) in TOLD.items():
        found[name], named = coins(), last if last is NAMED else {}
        found[name].tell(*rows, *([] if named else [last]), **named)
    for name, one in found.items():
        assert one.told == 5 and one.counts.tolist() == [2, 2, 1], name
        assert one.means.tolist() == [0.5, 0.5, 0], name
    for reward in (True, np.True_, np.float32(1), np.int64(1), np.array(1.0)):
        one = coins()
        one.tell(np.str_("green"), reward)
        assert one.means[1] == 1 and one.told == 1


REFUSED = {
    "a decimal comma": ("red;12,5\n", "reward: got '12,5' .row 1.; allowed: a number with a dec"),
    "a blank in a number": ("arm;x\nred;1\nblue;1 234,5\n", "reward: got '1 234,5' .row 3."),
    "digits with a mark": ("red,1_0\n", "reward: got '1_0' .row 1."),
    "infinity": ("red,1\nred,inf\n", "reward: got 'inf' .row 2."),
    "no arm": ("red,1\n\nreed,1\n", "arm: got 'reed' .nearest: 'red'; row 2"),
    "out of range": ("arm,x\nred,1\nblue,0.5\n", "rewards: got 0.5 .0.5 is not; row 3."),
    "a column more": ("red,1\nblue,1,1\n", "rewards: got .*Expected 2 fields in line 2, saw 3"),
    "one column": ("red 1\nblue 1\n", "arm: got None .the columns are 'red 1'.; allowed"),
    "nothing": ("\n\n", "rewards: got .*No columns to parse"),
    "a title alone": ("arm,reward\n", "arm: got .*at least one"),
    "other bytes": (b"r\xe9d,1\n", "rewards: got .*can't decode"),
    "an empty cell": ("red,1\nblue,\n,1\n", "missing: got 'refuse' .no arm or no reward in 2 of 3"),
    "a first row of an arm": ("red,NA\nblue,1\n", "missing: .*1 of 2 rows, first in row 1"),
    "a first row of an arm and a word": ("red,won\nblue,1\n", "reward: got 'won' .row 1."),
    "a name twice": ("won,won,variant\n1,1,red\n", "reward: got 'won' .several have it", NAMED),
    "four columns": ("a,b,c,d\n", "arm: got None .the columns are 'a', 'b', 'c', 'd'.; allowed"),
    "one name": ("a,b\n", r"reward: got None .the columns are 'a', 'b'", dict(arm="a")),
    "no such column": ("variant,won\n", "got 'wonn' .nearest: 'won'", NAMED | dict(reward="wonn")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_files_that_are_refused(name, tmp_path):
    contents, message, *given = REFUSED[name]
    with pytest.raises(je.errors.ArgumentError, match=message):
        of_file(tmp_path, contents, **(given[0] if given else {}))


def test_rows_of_frames_and_sequences_that_are_refused():
    one = coins()
    for given, message in (
        (({"a": ["red", "blue"], "b": [1, "1,5"]},), "reward: got '1,5' .row 2."),
        (({"a": ["red", "no"], "b": [1, 1]},), "arm: got 'no' .row 2"),
        (({"a": ["red", "red"], "b": [1, 2]},), "2 is not; row 2"),
        (({"a": ["red"], "b": [1, 0]},), "rewards: got .*of the same length"),
        ((pd.DataFrame({"a": ["red"], "b": pd.to_datetime(["2026-01-01"])}),), "row 1"),
        ((pd.DataFrame({"arm": ["red"]}),), "two columns"), ((COLUMNS,), "two columns"),
        ((FRAME["variant"], FRAME["won"][1:]), "missing: .*1 of 5 rows, first in row 1"),
        ((["red", "blue"], [1, 0.5]), "0.5 is not; row 2"),
        ((["red", "blue"], [1, None]), "missing: .*first in row 2"),
        ((["red", "blue"], 1), "reward: got 1; allowed: as many"),
        (([["red"], ["red", "blue"]], [1, 0]), "arm: got .'red'. .*row 1"),
        (("red",), "reward: got None"), (("red", "1"), "reward: got '1'"),
    ):  # fmt: skip
        with pytest.raises(je.errors.ArgumentError, match=message):
            one.tell(*given)
    assert one.told == 0
    with pytest.raises(je.errors.ArgumentError, match="missing: got 'drop'"):
        one.tell(["red"], [1], missing="drop")


def test_empty_cells_are_left_out_by_a_word(tmp_path):
    """And counted; an arm may have the name of an empty cell."""
    frame = pd.DataFrame({"a": ["red", None, "blue"], "b": [1.0, 0.0, np.nan]})
    one = coins()
    assert one.tell(frame, missing="skip") == 2 and one.counts.tolist() == [1, 0, 0]
    path = tmp_path / "table.csv"
    path.write_text("red,NA\nblue,1\n,\ngreen,n/a\n")
    assert one.tell(path, missing="skip") == 3 and one.counts.tolist() == [1, 0, 1]
    two = coins(arms=["none", "some", "all"])
    assert two.tell({"a": ["none", "some"], "b": [1, 0]}) == 0
    with pytest.raises(je.errors.ArgumentError, match="2 with an empty cell left out"):
        one.tell({"a": ["red", "blue"], "b": [None, None]}, missing="skip")


def test_numbers_as_names():
    """Of arms with names a cell is a name first; of arms without, its number."""
    one, two = coins(arms=["2", "1", "0"]), coins(arms=3)
    one.tell(pd.DataFrame({"a": [2, 2, 1], "b": [1, 1, 0]}))
    assert one.counts.tolist() == [2, 1, 0]
    two.tell(pd.DataFrame({"a": ["0", "2", "2"], "b": [1, 1, 0]}))
    two.tell(pd.DataFrame({"a": [1.0, np.nan], "b": [1, 0]}), missing="skip")
    assert two.counts.tolist() == [1, 1, 2]


def test_a_table_is_tested_once_at_its_end_in_any_order(tmp_path):
    """Sorted by arm, sorted by reward, and as it came: one event, one answer, after all rows."""
    rng = np.random.default_rng(0)
    arms = rng.permutation(np.repeat(NAMES, 21))
    rewards = (rng.random(63) < np.where(arms == "red", 0.95, 0.05)).astype(int)
    looks = []
    for n, by in enumerate((np.arange(63), arms, -rewards)):
        rows = np.argsort(by, kind="stable")
        one, path = coins(), tmp_path / f"{n}.live"
        one.save(path)
        one.tell({"arm": arms[rows], "reward": rewards[rows]})
        assert one.stopped and one.samples == 63 and one.answer_arms == ("red",)
        one.close()
        assert [set(event) for event in log.read(path).events] == [{"tell", "rewards"}]
        again = je.LiveRun.load(path, attach=False)
        assert again.samples == 63 and again.told == 63
        np.testing.assert_array_equal(again.p_values.pairs, one.p_values.pairs)
        looks.append(one.p_values.pairs)
        np.testing.assert_allclose(looks[-1], looks[0], rtol=1e-9)
    one = coins()
    for arm, reward in zip(arms, rewards, strict=True):  # a check after each
        one.tell(arm, reward)
    assert one.samples < 63 and one.told == 63


def test_first_rewards_in_two_tables_are_not_tested_in_their_order():
    """Rows that came before every arm had its first rewards enter together as well."""
    arms = ["red"] * 30 + ["green"] * 30
    rewards = [1] * 15 + [0] * 30 + [1] * 15
    one, two = coins(), coins()
    one.tell(arms, rewards)
    one.tell("blue", 0)
    assert not one.stopped and one.told == 61
    two.tell([*arms, "blue"], [*rewards, 0])
    np.testing.assert_allclose(two.p_values.pairs, one.p_values.pairs, rtol=1e-9)


# Rewards that contradict their family.

MOSTLY_ZERO = [0.0] * 93 + [5.0, 9.0, 1.0, 2.0, 3.0, 4.0, 7.0]
ROUNDED = np.round(2 * np.random.default_rng(0).standard_normal(100)) / 2
DOUBTED = {
    "zeros": (je.GaussianUnknownVariance(), "93% of the rewards of b are 0", MOSTLY_ZERO),
    "a wide law": (je.Gaussian(), "standard deviation is 3", 3.1 * np.linspace(-1.7, 1.7, 100)),
    "few": (je.GaussianUnknownVariance(), "", [0.0] * 40 + [1.0, 2.0]),
    "rounded": (je.GaussianUnknownVariance(), "", ROUNDED),
    "a narrow law": (je.Gaussian(), "", np.linspace(-0.1, 0.1, 100)),
    "no law": (je.Bounded(-100, 100), "", MOSTLY_ZERO),
}


@pytest.mark.parametrize("name", DOUBTED)
def test_rewards_that_contradict_the_family_are_named(name):
    family, words, rewards = DOUBTED[name]
    found = report.doubt(family, {"a": np.array([1.0, 2.0]), "b": np.array(rewards)})
    assert len(found) == bool(words) and words in "".join(found)
