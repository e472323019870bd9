"""Formulas of pages and docstrings, typeset as MathML, which browsers draw themselves.

Pages and docstrings write formulas in plain text, as `plain` reads them: in lines of prose, in
tables, and in indented blocks. LaTeX between dollars does as well. No script and no font is
loaded.
"""

import plain
import spotted
from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

APART = (
    nodes.FixedTextElement, nodes.literal, nodes.math, nodes.raw, nodes.title, nodes.image,
    nodes.comment, nodes.field_name, addnodes.desc_signature, addnodes.literal_strong,
    addnodes.literal_emphasis, addnodes.toctree,
)  # fmt: skip
"""What keeps its text: code, names, headings, links to names."""
LANGUAGES = ("none", "default", "text")


def apart(node: nodes.Node) -> bool:
    """Whether a node's text stays as it is."""
    while node is not None and not isinstance(node, nodes.document):
        output = isinstance(node, nodes.container) and "cell_output" in node["classes"]
        if isinstance(node, APART) or output:
            return True
        node = node.parent
    return False


class Typeset(SphinxTransform):
    """Replace formulas in plain text by mathematics."""

    default_priority = 600  # before quotes become curly

    def apply(self) -> None:
        for one in list(self.document.findall(nodes.literal_block)):
            found = one.get("language", "none") in LANGUAGES and plain.block(one.astext())
            if found:
                one.replace_self(nodes.math_block(found, found, nowrap=True, number=None))
        for parent in list(self.document.findall(nodes.TextElement)):
            if not apart(parent):
                parent.children = [*self.typeset(parent)]
                for child in parent.children:
                    child.parent = parent

    def typeset(self, parent: nodes.TextElement):
        """The children of a node, with formulas apart from words."""
        text = ""
        for child in [*parent.children, None]:
            if isinstance(child, nodes.Text):
                text += child.astext()
                continue
            text = text.replace("\n", " ")
            at = 0
            for start, end in spotted.spans(text):
                if start > at:
                    yield nodes.Text(text[at:start])
                for place, part in enumerate(spotted.parts(text[start:end])):
                    found = plain.latex(part)
                    if place:
                        yield nodes.Text(" ")
                        found = "{} " + found  # the operator stands between two things
                    yield nodes.math(found, found)
                at = end
            if at < len(text):
                yield nodes.Text(text[at:])
            text = ""
            if child is not None:
                yield child


def inline(translator, node):
    translator.body.append(str(tex2mathml(node.astext(), as_block=False)))
    raise nodes.SkipNode


def block(translator, node):
    made = tex2mathml(node.astext(), as_block=True)
    translator.body.append(f'<div class="formula" tabindex="0">{made}</div>')
    raise nodes.SkipNode


def setup(app):
    app.add_transform(Typeset)
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
