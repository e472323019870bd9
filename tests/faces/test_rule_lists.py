"""The rules that the pages list for problems and families of one's own are those that take them."""

import dataclasses
import re
from pathlib import Path

import jax.numpy as jnp
import pytest

import jaxelim as je
from jaxelim import catalogue
from tests.calls import checked

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"


@dataclasses.dataclass(frozen=True)
class Own(je.Problem):
    """Best arm, written as a problem of one's own."""

    name = "own"

    def answer(self, seen):
        return jnp.argmax(seen.means)

    def public(self, seen, answer):
        return jnp.arange(len(seen.means)) == answer

    def shape(self, seen, answer):
        return je.Rows(answer, jnp.arange(len(seen.means)) != answer)


class Counted(je.Poisson):
    """A family of one's own."""


def taken(problem, family):
    """The rules that take a problem and a family, by the checks of a call; nothing compiles."""
    instance = je.Instance.unstructured([0.9, 0.5, 0.2], family)
    found = set()
    for rule in catalogue.rules().values():
        stopping = je.Native() if rule.traits.stopping == ("native",) else je.LLR()
        try:
            checked(instance, problem, rule(), stopping=stopping)
        except je.UnsupportedError:
            continue
        found.add(rule.__name__)
    return found


def listed(page, pattern):
    """The names in inline code of one passage."""
    text = re.search(pattern, (HOW_TO / page).read_text(), re.S)
    assert text, f"{page} has no such passage"
    names = {kind.__name__ for kind in catalogue.rules().values()}
    return [set(re.findall(r"`(\w+)`", part)) & names for part in text.groups()]


def test_problems_of_ones_own():
    others, more = listed("add-a-problem.md", r"not Gaussian these rules are(.*?); for\s(.*?)too\.")
    assert others == taken(Own(), je.Bernoulli())
    assert others | more == taken(Own(), je.Gaussian())


def test_families_of_ones_own():
    pattern = r"\*\*Rules\*\*: (((?:`\w+`(?:,\s+)?)+);.*?)of your own"
    every, first = listed("add-a-family.md", pattern)
    assert every == taken(je.BestArm(), Counted())
    assert first == taken(Own(), Counted()) == taken(je.Thresholding(0.3), Counted()) - {
        "LUCB", "TopTwo"
    }  # fmt: skip
    assert taken(je.BestArm(reference=0.3), Counted()) == first | {"TopTwo"}
    (above,) = listed("add-a-family.md", r"`AnyAbove` is for(.*?)\.\n")
    assert above == taken(je.AnyAbove(0.3), Counted())
    top = taken(je.TopM(2), Counted())
    assert top == every - {"OptimisticTaS"}


@pytest.mark.parametrize("page", sorted(HOW_TO.parent.rglob("*.md")), ids=lambda page: page.name)
def test_no_page_installs_from_an_index(page):
    """The package is installed from a checkout: `pip install '.[cluster]'`."""
    assert not re.search(r"pip install\s+'?jaxelim", page.read_text())
