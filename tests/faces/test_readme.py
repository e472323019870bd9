"""The README and the docs agree with the code."""

import ast
import dataclasses
import re
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from experiments.cells import markdown
from jaxelim import catalogue, rules
from tests.calls import NAMES, rows

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted(
    (ROOT / "docs" / "tutorials").glob("[0-9]*.md"), key=lambda page: int(page.stem.split("-")[0])
)


def rows_of_rules() -> list[dict[str, str]]:
    """The table of rules, from their traits."""
    mark = lambda yes: "x" if yes else ""  # noqa: E731
    rows = []
    for name, rule in sorted(catalogue.rules().items()):
        traits = rule.traits
        set_as = catalogue.presets().items()
        named = sorted(key for key, one in set_as if one.__module__ == rule.__module__)
        others = sorted(other for other, one in rules.OTHER_NAMES.items() if one == name)
        structures = "both" if len(traits.structures) == 2 else traits.structures[0]
        rows.append(
            {
                "rule": rule.__name__,
                "name": ", ".join([name, *others, *named]),
                "structure": structures,
                "best arm": mark(traits.defined_for("best-arm")),
                "epsilon": mark(traits.slack and traits.defined_for("best-arm")),
                "reference": mark(traits.defined_for("best-or-none")),
                "costs": mark(traits.costs),
                "items": mark(traits.defined_for("best-item")),
                "top m": mark(traits.defined_for("top-m")),
                "signs": mark(traits.defined_for("thresholding")),
                "own problem": mark(traits.problems is None),
                "elimination at stopping": mark("selective" in traits.stopping),
                "at sampling": mark(traits.elimination),
                "native stop": mark("native" in traits.stopping),
                "rewards": ", ".join(traits.families or ["any"]),
                "source": traits.source,
            }
        )
    return rows


def test_the_table_of_rules_is_printed_from_the_code():
    text = (ROOT / "docs" / "reference" / "rules.md").read_text()
    found = re.search(r"<!-- rules: .*? -->\n(.*?)<!-- /rules -->", text, re.S)
    assert found and found.group(1).strip() == markdown(rows_of_rules()).strip()


PAGES = sorted(page for page in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"))
               if "```python\n" in page.read_text())  # fmt: skip


GROUPS = {
    "README": [ROOT / "README.md"],
    "how-to": [page for page in PAGES if page.parent.name == "how-to"],
    "others": [page for page in PAGES if page.parent != ROOT and page.parent.name != "how-to"],
}


@pytest.mark.parametrize("group", rows(GROUPS, ["README"]))
def test_python_blocks_run(group, tmp_path, monkeypatch):
    """Those of several pages in one process, which shares compiled programs."""
    for page in GROUPS[group]:
        here = tmp_path / page.stem
        here.mkdir()
        monkeypatch.chdir(here)
        code = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.S))
        # The same code with fewer runs and searches. Runs are shorter too, where none need stop.
        cap = 100_000 if "tau_figure" in code else 300
        small = code.replace("runs=1000", f"runs=8, max_samples={cap}", 1)
        small = small.replace("runs=1000", "runs=8, max_samples=300").replace("steps=60", "steps=4")
        exec(compile(small, page, "exec"), {"__name__": "__page__"})


def cells(text: str) -> list[str]:
    """The code of a notebook's cells, without their options."""
    return re.findall(r"^```\{code-cell\}.*\n(?::.*\n)*((?:.*\n)*?)^```$", text, re.M)


def executed(cell: str, name: str, space: dict) -> None:
    """Run a cell, and show its last value as a notebook would."""
    body = ast.parse(cell).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), name, "exec"), space)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), name, "eval"), space)
        for show in ("_repr_png_", "_repr_html_"):
            getattr(value, show, lambda: None)()
        assert value is None or hasattr(value, "_repr_png_") or "<Figure" not in repr(value)


@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_tutorials_run(page, tmp_path, monkeypatch):
    """All cells in order, as they stand; pytest makes a warning an error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    plt.switch_backend("agg")
    space = {"__name__": "__page__"}
    try:
        for number, cell in enumerate(cells(page.read_text())):
            executed(cell, f"{page.name}, cell {number}", space)
            for figure in plt.get_fignums():
                plt.figure(figure).canvas.draw()
    finally:
        plt.close("all")


def test_every_rule_documents_its_arguments():
    for name, rule in catalogue.rules().items():
        doc = rule.__doc__ or ""
        fields = [one.name for one in dataclasses.fields(rule)]
        for field in fields:
            assert re.search(rf"^\s+{field}: ", doc, re.M), (name, field)
        assert rule.traits.source and eval(repr(rule()), NAMES) == rule()
