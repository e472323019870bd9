"""Tutorials as notebooks that a reader downloads: `notebooks/NAME.ipynb` of the site.

Below the title of each tutorial stands a link to its notebook. Cells are those of the page,
without output; links to pages of the site are plain text there.
"""

import re
from pathlib import Path

import nbformat
from myst_nb.core.read import read_myst_markdown_notebook
from myst_parser.config.main import MdParserConfig

DOCS = Path(__file__).resolve().parents[1]
LINK = """

```{{raw}} html
<p class="download"><a href="../notebooks/{name}.ipynb" download>Download this tutorial as a
notebook</a>, or read <a href="open-a-notebook.html">how to open one</a>.</p>
```
"""


def tutorials() -> list[Path]:
    return sorted((DOCS / "tutorials").glob("[0-9]*.md"))


def notebook(page: Path) -> nbformat.NotebookNode:
    """A page as a notebook."""
    made = read_myst_markdown_notebook(page.read_text(), MdParserConfig(), add_source_map=False)
    made.metadata.pop("jupytext", None)
    for number, cell in enumerate(made.cells):
        cell["id"] = f"cell-{number}"
        if cell.cell_type == "markdown":
            text = re.sub(r"\]\((\d[\w-]*)\.md\)", r"](\1.ipynb)", cell.source)
            cell.source = re.sub(r"\[([^\]]+)\]\((?!https?:|\d)[^)]*\)", r"\1", text)
    made.nbformat, made.nbformat_minor = 4, 5
    nbformat.validate(made)
    return made


def write(app, failed):
    """Sphinx's event: write the notebooks into the site."""
    if failed or app.builder.name != "html":
        return
    folder = Path(app.outdir) / "notebooks"
    folder.mkdir(exist_ok=True)
    for page in tutorials():
        (folder / f"{page.stem}.ipynb").write_text(nbformat.writes(notebook(page)))


def link(app, name, source):
    """Sphinx's event: put the link below a tutorial's title."""
    folder, _, page = name.rpartition("/")
    if folder == "tutorials" and page[0].isdigit():
        put = LINK.format(name=page)
        source[0] = re.sub(
            r"^(# .*)$", lambda title: title.group(1) + put, source[0], count=1, flags=re.M
        )


def setup(app):
    app.connect("source-read", link)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
