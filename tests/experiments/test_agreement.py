"""The counts of |z| on the pages are those of the tables of results."""

import pytest

from experiments import agreement
from experiments.agreement import Counts


def test_pages_have_the_tables_counts():
    """`python -m experiments.agreement` writes them."""
    for path, text in agreement.pages().items():
        assert (agreement.ROOT / path).read_text() == text, path


def test_other_tables_give_other_pages():
    text = "Of the 145 cells of the\nthree tables 130 have |z| <= 2, 15 lie between 2 and 3, and 1"
    phrase = "Of the {cells} cells of the three tables {near} have |z| <= 2, {within} lie between"
    assert agreement.replaced(text, phrase, Counts(9, 8, 7, 6)) == (
        "Of the 9 cells of the\nthree tables 8 have |z| <= 2, 7 lie between 2 and 3, and 1"
    )
    with pytest.raises(AssertionError, match="0 places"):
        agreement.replaced("nothing", phrase, Counts(9, 8, 7, 6))
    assert Counts(1, 2, 3, 4) + Counts(1, 1, 1, 1) == Counts(2, 3, 4, 5)
