"""Formulas as MathML, which browsers draw themselves: no script and no font is loaded."""

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml


def inline(translator, node):
    translator.body.append(str(tex2mathml(node.astext(), as_block=False)))
    raise SkipNode


def block(translator, node):
    translator.body.append(f'<div class="formula">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
