"""The README, the docs and the docstrings agree with the code; links and paths lead somewhere."""

import ast
import dataclasses
import doctest
import importlib
import inspect
import pkgutil
import re
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

import jaxelim as je
from experiments.cells import markdown
from jaxelim import catalogue, rules
from tests.calls import NAMES, rows

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
TUTORIALS = sorted(
    (ROOT / "docs" / "tutorials").glob("[0-9]*.md"), key=lambda page: int(page.stem.split("-")[0])
)


def rows_of_rules() -> list[dict[str, str]]:
    """The table of rules, from their traits."""
    rows = []
    for name, rule in sorted(catalogue.rules().items()):
        traits = rule.traits
        set_as = catalogue.presets().items()
        named = sorted(key for key, one in set_as if one.__module__ == rule.__module__)
        others = sorted(other for other, one in rules.OTHER_NAMES.items() if one == name)
        marks = {
            "best arm": traits.defined_for("best-arm"),
            "epsilon": traits.slack and traits.defined_for("best-arm"),
            "reference": traits.defined_for("best-or-none"),
            "costs": traits.costs,
            "items": traits.defined_for("best-item"),
            "top m": traits.defined_for("top-m"),
            "signs": traits.defined_for("thresholding"),
            "own problem": traits.problems is None,
            "elimination at stopping": "selective" in traits.stopping,
            "at sampling": traits.elimination,
            "native stop": "native" in traits.stopping,
        }
        rows.append({
            "rule": rule.__name__, "name": ", ".join([name, *others, *named]),
            "structure": "both" if len(traits.structures) == 2 else traits.structures[0],
            **{key: "x" if yes else "" for key, yes in marks.items()},
            "rewards": ", ".join(traits.families or ["any"]), "source": traits.source,
        })  # fmt: skip
    return rows


def test_the_table_of_rules_is_printed_from_the_code():
    text = (ROOT / "docs" / "reference" / "rules.md").read_text()
    found = re.search(r"<!-- rules: .*? -->\n(.*?)<!-- /rules -->", text, re.S)
    assert found and found.group(1).strip() == markdown(rows_of_rules()).strip()


WITH_PYTHON = [page for page in PAGES if "```python\n" in page.read_text()]
GROUPS = {
    "README": [ROOT / "README.md"],
    "how-to": [page for page in WITH_PYTHON if page.parent.name == "how-to"],
    "others": [page for page in WITH_PYTHON if page.parent not in (ROOT, ROOT / "docs" / "how-to")],
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
        for field in dataclasses.fields(rule):
            assert re.search(rf"^\s+{field.name}: ", rule.__doc__ or "", re.M), (name, field)
        assert rule.traits.source and eval(repr(rule()), NAMES) == rule()


# Links, and names of the reference.

PATH = r"(?<![\w/.~-])(?:jaxelim|tests|experiments|benchmarks|docs)/(?:[\w-]+/)*(?:\w+\.\w+)?"
WRITTEN = ("benchmarks/results/",)
"""Folders that commands write, which git does not hold."""


def prose(text: str) -> str:
    """A page without its fenced code."""
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.S | re.M)


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings."""
    found = re.findall(r"^#+ (.*)$", prose(text), re.M)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_paths_exist(page):
    text = prose(page.read_text())
    for target in re.findall(r"\]\((?![a-z]+:)([^)\s]+)\)", text):
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file.read_text()), target
    for path in re.findall(PATH, text):
        assert path.startswith(WRITTEN) or (ROOT / path).exists(), path
    for name in re.findall(r"(?<![\w/.])jaxelim(?:\.\w+)+", text):
        module = (ROOT / name.replace(".", "/")).with_suffix(".py")  # some refuse to be imported
        assert module.exists() or pkgutil.resolve_name(name) is not None


MODULES = (
    "contracts", "families", "figures", "instances", "live", "bounds", "parallel",
    "problems", "stopping", "store", "testing", "thresholds",
)  # fmt: skip


def test_the_reference_has_every_public_name():
    known = set()
    for page in (ROOT / "docs" / "reference" / "api").glob("*.md"):
        blocks = re.findall(r"```\{names\} ([\w.]+)\n(.*?)\n```", page.read_text(), re.S)
        for module, names in blocks:
            known |= {id(pkgutil.resolve_name(f"{module}.{name}")) for name in names.split()}
    for place in (je, *(importlib.import_module(f"jaxelim.{name}") for name in MODULES)):
        things = {name: getattr(place, name) for name in place.__all__}
        assert not [n for n, x in things.items() if not inspect.ismodule(x) and id(x) not in known]


# Examples in docstrings.

FILES = sorted(
    str(file.relative_to(ROOT))
    for file in (ROOT / "jaxelim").rglob("*.py")
    if re.search(r">>> .*(?<!# doctest: \+SKIP)$", file.read_text(), re.M)
)


@pytest.mark.parametrize("file", FILES)
def test_examples(file):
    module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    found = doctest.testmod(module, extraglobs=NAMES, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted and not found.failed
