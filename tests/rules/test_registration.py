"""What the library asks of each of its rules: one file, one line, and words for what is refused."""

import ast
import collections
import functools
from pathlib import Path

import pytest

import jaxelim as je
from jaxelim import catalogue
from jaxelim.simulation import refusals
from tests.calls import checked

ROOT, RULES = Path(je.__file__).parent, catalogue.rules()


@functools.cache
def places() -> dict[str, set[tuple[str, int]]]:
    """Files and lines whose code, docstrings apart, has an identifier, by identifier."""
    found = collections.defaultdict(set)
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            for field in ("id", "attr", "name", "asname"):
                name = getattr(node, field, None)
                if isinstance(name, str):
                    found[name].add((str(path.relative_to(ROOT)), node.lineno))
    return found


@pytest.mark.parametrize("name", RULES)
def test_one_file_and_one_line(name):
    kind = RULES[name]
    own = "rules/" + kind.__module__.rpartition(".")[2] + ".py"
    elsewhere = [line for line in sorted(places()[kind.__name__]) if line[0] != own]
    elsewhere = [line for line in elsewhere if not line[0].startswith("testing/")]  # run Uniform
    assert [file for file, _ in elsewhere if file != "__init__.py"] == ["rules/__init__.py"]
    assert getattr(je, kind.__name__) is kind and kind.__name__ in je.__all__


def test_modules_of_rules_are_no_part_of_the_face():
    assert not {"fws", "lucb", "parts"} & set(dir(je))


# Other refusals of rules are rows of tests/data/bad_input.tsv.


@pytest.mark.parametrize("name", [
    name for name, rule in RULES.items() if rule.traits.families == ("gaussian",)
])  # fmt: skip
def test_rules_of_gaussian_rewards(name):
    """The family is named, or the instance where the rule is for linear arms."""
    rule, coins = RULES[name], je.Instance.unstructured([0.8, 0.5, 0.2], je.Bernoulli())
    stopping = je.LLR() if "llr" in rule.traits.stopping else je.Native()
    with pytest.raises(je.errors.UnsupportedError, match=rule.__name__) as caught:
        checked(coins, je.BestArm(), rule(), stopping=stopping)
    independent = "unstructured" in rule.traits.structures
    assert caught.value.argument == ("family" if independent else "instance")


@pytest.mark.parametrize("trait", ["costs", "slack"])
def test_messages_name_the_rules_that_know(trait):
    """Each rule by its name, whatever settings it needs for it."""
    words = getattr(refusals, f"KNOW_{trait.upper()}")
    named = [word.split(" with ")[0] for word in words.split(", ")]
    assert named == sorted(rule.__name__ for rule in RULES.values() if getattr(rule.traits, trait))


class NoDivergence(je.contracts.Family):
    """A family that gives rules nothing but evidence."""

    name = "nothing"


@pytest.mark.parametrize("rule", [je.LinGame(), je.FWS(), je.LazyTaS(), je.TrackAndStop()])
def test_what_the_rules_need(rule):
    """Evidence alone is enough but for w*."""
    solves = isinstance(rule, je.TrackAndStop)
    assert bool(rule.needs(NoDivergence(), je.BestArm())) == solves
    assert all(map(je.Gaussian().has, rule.needs(je.Gaussian(), je.BestArm())))
    assert bool(rule.needs(NoDivergence(), je.Thresholding(0.1))) == solves
    missing = [one for one in rule.needs(je.Bernoulli(), je.TopM()) if not je.Bernoulli().has(one)]
    assert not missing and je.Gaussian().design and not je.Bernoulli().design
