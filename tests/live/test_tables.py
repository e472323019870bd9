"""Tables as people have them: separators, marks, words, empty cells, columns by name."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import jaxelim as je
from jaxelim.cli import main
from jaxelim.live import log

pytestmark = pytest.mark.xdist_group("live")
NAMES = ("red", "green", "blue")
ROWS = [("red", 1), ("green", 0), ("blue", 0), ("red", 0), ("green", 1)]
NEW = ["--arms", *NAMES, "--family", "bernoulli", "--rule", "uniform"]


def run(**changes) -> je.LiveRun:
    given = dict(family=je.Bernoulli())
    return je.LiveRun(NAMES, je.BestArm(), je.Uniform(), **{**given, **changes})


def lines(separator: str, words=(0, 1), end: str = "\n", head: str = "") -> str:
    return head + end.join(f"{arm}{separator}{words[x]}" for arm, x in ROWS) + end


def told(tmp_path, contents: str | bytes, **given) -> je.LiveRun:
    path = tmp_path / "table.csv"
    path.write_bytes(contents.encode() if isinstance(contents, str) else contents)
    one = run()
    one.tell(path, **given)
    return one


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


@pytest.mark.parametrize("name", READ)
def test_files_of_two_columns(name, tmp_path):
    one = told(tmp_path, READ[name])
    assert one.counts.tolist() == [2, 2, 1] and one.means.tolist() == [0.5, 0.5, 0]


def test_columns_by_name(tmp_path):
    """Others are ignored, whatever they hold: of a file, a frame, a mapping, a data set."""
    arms, rewards = zip(*ROWS, strict=True)
    columns = {"id": list("vwxyz"), "won": list(rewards), "variant": list(arms)}
    text = "id;won;variant;price\n" + "".join(f"{i};{x};{a};1,5\n" for i, (a, x) in enumerate(ROWS))
    names = dict(arm="variant", reward="won")
    assert told(tmp_path, text, **names).counts.tolist() == [2, 2, 1]
    frame = pd.DataFrame(columns)
    structured = np.array(list(zip(arms, rewards, strict=True)), [("variant", "U9"), ("won", int)])
    tables = [
        columns, frame, frame.astype({"variant": "category", "won": bool}), structured,
        frame.astype({"won": "Int64"}), xr.Dataset({k: ("row", v) for k, v in columns.items()}),
        frame.assign(won=["yes" if x else "no" for x in rewards]),
    ]  # fmt: skip
    for table in tables:
        one = run()
        one.tell(table, **names)
        assert one.counts.tolist() == [2, 2, 1] and one.means.tolist() == [0.5, 0.5, 0]
    path = tmp_path / "table.csv"
    for given, words in (
        ({}, "csv: got .*row 1 has 4 columns.*arm and reward, the names of two"),
        (dict(arm="variant"), r"reward: got None \(the columns are 'id', 'won'"),
        (dict(arm="variant", reward="wonn"), "reward: got 'wonn' .nearest: 'won'"),
    ):
        with pytest.raises(je.errors.ArgumentError, match=words):
            run().tell(path, **given)
    path.write_text("won,won,variant\n1,1,red\n")
    with pytest.raises(je.errors.ArgumentError, match="reward: got 'won' .several have it"):
        run().tell(path, **names)


REFUSED = {
    "a decimal comma": ("red;12,5\n", "reward: got '12,5' .row 1.; allowed: a number with a dec"),
    "a blank in a number": ("arm;x\nred;1\nblue;1 234,5\n", "reward: got '1 234,5' .row 3."),
    "digits with a mark": ("red,1_0\n", "reward: got '1_0' .row 1."),
    "infinity": ("red,1\nred,inf\n", "reward: got 'inf' .row 2."),
    "no arm": ("red,1\n\nreed,1\n", "arm: got 'reed' .row 3; nearest: 'red'"),
    "out of range": ("arm,x\nred,1\nblue,0.5\n", "rewards: got 0.5 .0.5 is not; row 3."),
    "a column more": ("red,1\nblue,1,1\n", "csv: got .*row 2 has 3 columns, and row 1 has 2"),
    "one column": ("red 1\nblue 1\n", "csv: got .*row 1 has 1 columns"),
    "nothing": ("\n\n", "rewards: got .*it has no row"),
    "a title alone": ("arm,reward\n", "arm: got .*at least one"),
    "other bytes": (b"r\xe9d,1\n", "csv: got .*can't decode"),
    "an empty cell": ("red,1\nblue,\n,1\n", "missing: got 'refuse' .no arm or no reward in 2 of 3"),
    "a first row of an arm": ("red,NA\nblue,1\n", "missing: .*1 of 2 rows, first in row 1"),
    "a first row of an arm and a word": ("red,won\nblue,1\n", "reward: got 'won' .row 1."),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_has_its_row(name, tmp_path):
    contents, message = REFUSED[name]
    with pytest.raises(je.errors.ArgumentError, match=message):
        told(tmp_path, contents)


def test_rows_of_frames_and_sequences():
    one = run()
    for given, message in (
        (({"a": ["red", "blue"], "b": [1, "1,5"]},), "reward: got '1,5' .row 2."),
        (({"a": ["red", "no"], "b": [1, 1]},), "arm: got 'no' .row 2"),
        (({"a": ["red", "red"], "b": [1, 2]},), "2 is not; row 2"),
        (({"a": ["red"], "b": [1, 0]},), "reward: got .*2 of them, and 1 arms"),
        ((pd.DataFrame({"a": ["red"], "b": pd.to_datetime(["2026-01-01"])}),), "row 1"),
        ((["red", "blue"], [1, 0.5]), "0.5 is not; row 2"),
        ((["red", "blue"], [1, None]), "missing: .*first in row 2"),
    ):
        with pytest.raises(je.errors.ArgumentError, match=message):
            one.tell(*given)
    assert one.told == 0
    with pytest.raises(je.errors.ArgumentError, match="missing: got 'drop'"):
        one.tell(["red"], [1], missing="drop")


def test_empty_cells_are_left_out_by_a_word(tmp_path):
    """And counted; an arm may have the name of an empty cell."""
    frame = pd.DataFrame({"a": ["red", None, "blue"], "b": [1.0, 0.0, np.nan]})
    one = run()
    assert one.tell(frame, missing="skip") == 2 and one.counts.tolist() == [1, 0, 0]
    path = tmp_path / "table.csv"
    path.write_text("red,NA\nblue,1\n,\ngreen,n/a\n")
    assert one.tell(path, missing="skip") == 3 and one.counts.tolist() == [1, 0, 1]
    two = je.LiveRun(["none", "some"], je.BestArm(), je.Uniform(), family=je.Bernoulli())
    assert two.tell({"a": ["none", "some"], "b": [1, 0]}) == 0
    with pytest.raises(je.errors.ArgumentError, match="2 with an empty cell left out"):
        one.tell({"a": ["red", "blue"], "b": [None, None]}, missing="skip")


def test_numbers_as_names():
    """Of arms with names a cell is a name first; of arms without, its number."""
    one = je.LiveRun(["2", "1"], je.BestArm(), je.Uniform(), family=je.Bernoulli())
    one.tell(pd.DataFrame({"a": [2, 2, 1], "b": [1, 1, 0]}))
    assert one.counts.tolist() == [2, 1]
    two = je.LiveRun(3, je.BestArm(), je.Uniform(), family=je.Bernoulli())
    two.tell(pd.DataFrame({"a": ["0", "2", "2"], "b": [1, 1, 0]}))
    two.tell(pd.DataFrame({"a": [1.0, np.nan], "b": [1, 0]}), missing="skip")
    assert two.counts.tolist() == [1, 1, 2]


def table(seed: int = 0, n: int = 300) -> dict:
    rng = np.random.default_rng(seed)
    arms = rng.permutation(np.repeat(NAMES, n // 3))
    chance = np.where(arms == "red", 0.9, 0.2)
    return {"arm": arms, "reward": (rng.random(n) < chance).astype(int)}


def test_a_table_is_tested_once_at_its_end_in_any_order(tmp_path):
    """Sorted by arm, sorted by reward, and as it came: one event, one answer, after all rows."""
    given = table()
    order = np.argsort(given["arm"], kind="stable"), np.argsort(-given["reward"], kind="stable")
    looks: list[np.ndarray] = []
    for n, rows in enumerate((np.arange(300), *order)):
        one, path = run(), tmp_path / f"{n}.live"
        one.save(path)
        one.tell({name: column[rows] for name, column in given.items()})
        assert one.stopped and one.samples == 300 and one.answer_arms == ("red",)
        one.close()
        found = log.read(path)
        assert [set(event) for event in found.events] == [{"tell", "rewards"}]
        again = je.LiveRun.load(path, attach=False)
        assert again.samples == 300 and again.told == 300
        np.testing.assert_array_equal(again.p_values.pairs, one.p_values.pairs)
        looks.append(one.p_values.pairs)
        np.testing.assert_allclose(looks[-1], looks[0], rtol=1e-9)
    one = run()
    for arm, reward in zip(given["arm"], given["reward"], strict=True):  # a check after each
        one.tell(arm, reward)
    assert one.samples < 300 and one.told == 300


def test_first_rewards_in_two_tables_are_not_tested_in_their_order():
    """Rows that came before every arm had its first rewards enter together as well."""
    ones = {
        "arm": ["red"] * 40 + ["green"] * 40,
        "reward": [1] * 20 + [0] * 20 + [0] * 20 + [1] * 20,
    }
    one = run()
    one.tell(ones)
    one.tell("blue", 0)
    assert not one.stopped and one.told == 81
    looks = one.p_values.pairs
    two = run()
    two.tell({name: [*column, last] for (name, column), last in
              zip(ones.items(), ("blue", 0), strict=True)})  # fmt: skip
    np.testing.assert_allclose(two.p_values.pairs, looks, rtol=1e-9)


@pytest.mark.slow
def test_arms_that_were_asked_for_are_answered_by_a_table():
    one = run()
    one.tell(list(NAMES), [1, 0, 1])
    asked = one.ask(3)
    one.tell({"a": [asked[1], "red"], "b": [1, 0]})
    left = list(asked)
    for arm in (asked[1], "red"):
        left.remove(arm)
    assert list(one.waiting) == left and one.told == 5


def test_from_the_shell(tmp_path, capsys):
    """A table with other columns and an empty cell."""
    path, csv = str(tmp_path / "mine.live"), tmp_path / "table.csv"
    csv.write_text("id,won,variant\n1,yes,red\n2,no,green\n3,,red\n4,no,blue\n")
    assert main(["live", "new", path, *NEW]) == 0
    capsys.readouterr()
    tell = ["live", "tell", path, "--csv", str(csv), "--arm", "variant", "--reward", "won"]
    assert main(tell) == 2
    assert "no arm or no reward in 1 of 4 rows, first in row 4" in capsys.readouterr().err
    assert main([*tell, "--missing", "skip"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Rows left out for an empty cell: 1.\n")
    assert "The run is open after 3 rewards" in shown
