"""The README and the docs agree with the code."""

import ast
import dataclasses
import functools
import inspect
import re
import tempfile
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import pytest
import tyro

import jaxelim as je
from experiments import allocations, two_dimensional
from jaxelim import catalogue, checks, figures
from jaxelim.lower_bound.complexities import Complexity

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted(
    (ROOT / "docs" / "tutorials").glob("[0-9]*.md"), key=lambda page: int(page.stem.split("-")[0])
)


def test_the_table_of_rules_is_printed_from_the_code():
    text = (ROOT / "docs" / "reference" / "rules.md").read_text()
    found = re.search(r"<!-- rules: .*? -->\n(.*?)<!-- /rules -->", text, re.S)
    assert found and found.group(1).strip() == catalogue.markdown(catalogue.rule_rows()).strip()


def test_how_a_script_keeps_programs():
    """Where a newcomer looks: the README, the call, and its page."""
    pages = [(ROOT / name).read_text() for name in ("README.md", "docs/how-to/simulate.md")]
    assert all("JAX_COMPILATION_CACHE_DIR" in text for text in (*pages, je.simulate.__doc__))
    assert "jax_compilation_cache_dir" in pages[1] and hasattr(
        jax.config, "jax_compilation_cache_dir"
    )


@pytest.mark.parametrize("page", [
    "README.md", "docs/how-to/add-a-rule.md", "docs/how-to/add-a-problem.md",
    "docs/how-to/add-a-family.md",
    "docs/how-to/add-a-stopping-rule.md", "docs/how-to/which-family.md",
    "docs/how-to/store-and-resume.md",
    *(pytest.param(f"docs/how-to/{name}.md", marks=pytest.mark.slow)
      for name in ("add-a-threshold", "simulate", "their-call-ours", "compare-rules",
                   "recorded-rewards", "live-runs", "did-it-work")),
    pytest.param("docs/gallery.md", marks=pytest.mark.slow),
    # most of its minute goes into compiling the searches
    pytest.param("docs/explanation/allocations.md", marks=pytest.mark.slow),
])  # fmt: skip
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)
    assert blocks
    code = "\n".join(blocks)
    # The same code with fewer runs and searches. Runs are shorter too, where none need stop.
    cap = 100_000 if "tau_figure" in code else 300
    small = code.replace("runs=1000", f"runs=8, max_samples={cap}", 1)
    small = small.replace("runs=1000", "runs=8, max_samples=300").replace("steps=60", "steps=4")
    exec(compile(small, page, "exec"), {"__name__": "__page__"})


def test_the_page_on_allocations_recomputes_its_certificate():
    """The two lines of NumPy, which the slow suite runs with the rest of the page."""
    text = (ROOT / "docs" / "explanation" / "allocations.md").read_text()
    solve, certify = re.findall(r"```python\n(.*?)```", text, re.S)[:2]
    space: dict = {}
    exec(solve + certify, space)  # its assert
    found = space["found"]
    assert space["bound"] / found.value - 1 == pytest.approx(found.gap, abs=1e-12)
    assert found.information.min() == pytest.approx(found.value, rel=1e-9)


def test_help_explains_each_field_of_a_complexity():
    words = inspect.getdoc(Complexity)
    for field in dataclasses.fields(Complexity):
        assert re.search(rf"^    {field.name}: \w", words, re.M), field.name
    assert "in the order of `pieces`" in " ".join(words.split())


def test_pages_have_the_cap_and_the_range_of_jax():
    page = (ROOT / "docs" / "how-to" / "add-a-rule.md").read_text()
    assert f"by default\n{checks.MAX_SAMPLES:,} samples" in page
    install = (ROOT / "README.md").read_text().split("make demo")[0]
    declared = (ROOT / "pyproject.toml").read_text()
    (given,) = re.findall(r'^  "jax(>=.*)",', declared, re.M)
    left_out = re.findall(r"!=([\d.]+)", given)
    assert given.startswith(">=0.10,") and given.endswith(",<0.13")
    assert "Python 3.11 to 3.13, JAX 0.10 to 0.12" in install
    assert left_out and all(name in install for name in left_out)


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


def test_tutorials_are_notebooks_with_links_to_further_pages():
    assert [int(page.stem.split("-")[0]) for page in TUTORIALS] == list(range(1, 11))
    for place, page in enumerate(TUTORIALS):
        text = page.read_text()
        assert text.startswith("---\njupytext:\n") and "format_name: myst" in text
        assert len(cells(text)) == text.count("```{code-cell}") >= 3, page.name
        for cell in cells(text):
            compile(cell, page.name, "exec")
            assert all(len(line) <= 100 for line in cell.split("\n")), page.name
        further = text[text.index("\n## Further\n") :]
        assert all(f"]({one.name})" in further for one in TUTORIALS[place + 1 : place + 2])
        deeper = re.findall(r"\]\(\.\./(?:how-to|reference|explanation)/", further)
        assert len(deeper) >= 3, page.name


def test_cells_are_found_without_their_options():
    text = "```{code-cell} ipython3\n:tags: [hide-input]\na = 1\nb = 2\n```\n\n```python\nc\n```\n"
    assert cells(text) == ["a = 1\nb = 2\n"]


def test_the_page_on_allocations_uses_names_that_exist():
    """Names, arguments and fields of the page's blocks; the slow suite runs them."""
    text = (ROOT / "docs" / "explanation" / "allocations.md").read_text()
    results = {}
    for node in ast.walk(ast.parse("\n".join(re.findall(r"```python\n(.*?)```", text, re.S)))):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "je"
        ):
            assert hasattr(je, node.attr), node.attr
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("je."):
            call = functools.reduce(getattr, ast.unparse(node.func).split(".")[1:], je)
            inspect.signature(call).bind(
                *node.args, **{word.arg: word.value for word in node.keywords}
            )
            results[ast.unparse(node.func)] = call
    assert len(results) > 15 and re.findall(r"jaxelim\.figures\.(\w+)", text)
    for name in re.findall(r"jaxelim\.figures\.(\w+)", text):
        assert name in figures.__all__


def test_the_figures_of_the_page_on_allocations_come_from_its_commands():
    text = (ROOT / "docs" / "explanation" / "allocations.md").read_text()
    shown = re.findall(r"!\[.+\]\(\.\./(figures/.+)\)", text)
    assert shown and all((ROOT / "docs" / name).read_bytes()[:4] == b"\x89PNG" for name in shown)
    assert sorted(
        f"figures/{path.name}" for path in (ROOT / "docs" / "figures").iterdir()
    ) == sorted(shown)
    settings = {
        "allocations": allocations.Allocations,
        "two_dimensional": two_dimensional.TwoDimensional,
    }
    (commands,) = re.findall(r"```sh\n(.*?)```", text, re.S)
    for module, words in re.findall(r"python -m experiments\.(\w+) (.*)", commands):
        config = tyro.cli(settings.pop(module), args=words.split())
        assert config.endings == ("png",) and "docs" in config.output.parts
    assert not settings


def test_every_rule_documents_its_arguments():
    for name, rule in catalogue.rules().items():
        doc = rule.__doc__ or ""
        fields = [one.name for one in dataclasses.fields(rule)]
        for field in fields:
            assert re.search(rf"^\s+{field}: ", doc, re.M), (name, field)
        assert rule.traits.source and eval(repr(rule()), vars(je)) == rule()
