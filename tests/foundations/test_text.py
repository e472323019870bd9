"""Text is repr: what `text_of` writes, `parse` reads; nothing else is executed."""

import dataclasses

import pytest

import jaxelim as je
from jaxelim import catalogue
from jaxelim.text import NotHere, parse, text_of

HERE = __name__


@dataclasses.dataclass(frozen=True)
class Mine:
    rate: float = 1.0
    inner: object = None


def level(t, delta):
    return 1.0


def test_names_without_case_hyphens_and_parentheses():
    for text in ("TopM(3)", "top-m(m=3)", "top_m( 3 )", "topm(3)"):
        assert catalogue.made("problem", text) == je.TopM(3)
    for text in ("LinGapE", "lingape", "LinGapE()", "lin-gape"):
        assert catalogue.made("rule", text) == je.LinGapE()
    assert catalogue.made("rule", "k-learner") == je.LinGame()
    assert catalogue.made("elimination", "none") is None
    resets = catalogue.made("elimination", "Resets(SelectiveElimination(), alpha=GK16())")
    assert resets == je.Resets(je.SelectiveElimination(), je.GK16())


def test_ones_own_by_module():
    assert catalogue.made("rule", f"{HERE}:Mine(2.5)") == Mine(2.5)
    assert catalogue.made("rule", f"{HERE}:Mine") == Mine()
    assert catalogue.made("threshold", f"{HERE}:level") is level
    value = Mine(0.1 + 0.2, (level, je.TopM(2)))
    text = text_of("x", value)
    assert text == f"{HERE}.Mine(rate={0.1 + 0.2!r}, inner=({HERE}.level, TopM(m=2)))"
    assert parse(text, "x", {}, {"TopM": je.TopM}) == value
    with pytest.raises(NotHere, match="level"):
        parse(text, "x", {"TopM": je.TopM}, files=True)
