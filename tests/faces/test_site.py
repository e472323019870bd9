"""The site's own code: the build itself is `make docs`."""

import sys
from pathlib import Path

import pytest

import jaxelim as je

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture
def public(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "extensions"))
    import public

    yield public
    sys.modules.pop("public")


def test_the_reference_has_every_public_name(public):
    assert not public.missing()
    for kind in public.KINDS:
        page = DOCS / "reference" / ("errors.md" if kind == "errors" else f"api/{kind}.md")
        assert f"<!-- generated: names {kind} -->" in page.read_text()
    kinds = [kind for kinds in public.KINDS.values() for kind in kinds]
    shown = [path for kind in kinds for path in public.paths(kind)]
    assert len(shown) == len(set(shown))


def test_a_missing_name_is_found(public, monkeypatch):
    monkeypatch.setitem(public.KINDS, "problems", public.KINDS["problems"][:1])
    lost = ("Thresholding", "HalfSpaces")
    rooms = ("jaxelim", "jaxelim.problems")
    assert public.missing() == {f"{room}.{name}" for room in rooms for name in lost}


def test_names_in_backticks_lead_to_the_reference(public):
    assert public.target("simulate") == public.target("je.simulate()") == "jaxelim.simulate"
    assert public.target("Result.save") == "jaxelim.Result.save"
    assert public.target("samples") is public.target("Result.nothing") is None
    assert public.found("jaxelim.Result.save") is je.Result.save
