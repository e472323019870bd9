"""The site's own code: the build itself is `make docs`."""

import os
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


@pytest.fixture
def plain(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "extensions"))
    import plain

    yield plain
    sys.modules.pop("plain")


@pytest.fixture
def spotted(plain):
    import spotted

    yield spotted
    sys.modules.pop("spotted")


@pytest.mark.parametrize(
    "text, latex",
    [
        ("phi_k . theta", r"\phi_{k} \cdot \theta"),
        ("||y||^2_{V^-1}", r"\lVert y \rVert_{V^{-1}}^{2}"),
        ("V = ridge I + sum_k N_k phi_k phi_k'",
         r"V = \mathrm{ridge} I + \sum_{k} N_{k} \phi_{k} \phi_{k}^{\top}"),
        ("T* = 1/H*", r"T^{\star} = 1 / H^{\star}"),
        ("{lambda : y . lambda <= c}", r"\{\lambda : y \cdot \lambda \le c\}"),
        ("theta_hat", r"\hat{\theta}"),
        ("3e-8 x^-beta", r"3 \times 10^{-8} x^{-\beta}"),
        ("tau_full <= tau_LLR", r"\tau_{\mathrm{full}} \le \tau_{\mathrm{LLR}}"),
        ("dH_p/dw_k", r"\mathrm{d}H_{p} / \mathrm{d}w_{k}"),
        ("K x d", r"K \times d"),
    ],
)  # fmt: skip
def test_a_formula_in_plain_text_is_latex(plain, text, latex):
    assert plain.latex(text) == latex


@pytest.mark.parametrize(
    "line, formulas",
    [
        ("Arm k has the mean phi_k . theta.", ["k", "phi_k . theta"]),
        ("At delta = 0.01 the K arms take 4.9 s, a third of 3 GB.", ["delta = 0.01", "K"]),
        ("An A/B test of arm's rewards, 95% in [0, 1): a p-value.", ["p"]),
        ("The least N_i d(m_i, x + epsilon) over x, if m_i > m_k.",
         ["N_i d(m_i, x + epsilon)", "m_i > m_k"]),
        ("A lambda is no threshold; max_samples and noise_x stay, s.e. too.", []),
        ("C-tracking pulls argmin N_k - W_k (Ville 1939), e.g. from L2.", ["argmin N_k - W_k"]),
        ("Give half_spaces(arms, theta) or top(k) theta.", ["theta"]),
        ("It is beta = f(scale t^2/delta), H*(theta) too, with k-learner.",
         ["beta = f(scale t^2/delta)", "H*(theta)"]),
        ("Commit 39fc4a9, file a.nc, float64, 2 x as long.", []),
    ],
)  # fmt: skip
def test_formulas_are_found_in_prose(spotted, line, formulas):
    assert [line[first:last] for first, last in spotted.spans(line)] == formulas


def test_a_block_is_a_formula_or_stays(plain, spotted):
    made = plain.block("u = (a + b)/(c + d)\nv = log(1/2\n       + 3)")
    first, second = made.split(r" \\ ")
    assert first.endswith(r"u &= \frac{a + b}{c + d}") and r"\log\left( 1/2 + 3 \right)" in (
        second.replace(" / ", "/")
    )
    assert plain.block("make test  # the gate") is None
    assert plain.block("def f(x):\n    return x + 1") is None
    assert "".join(spotted.parts("a_1 + a_2 + a_3 = log(b + c) + f(d + e)")).replace(" ", "") == (
        "a_1+a_2+a_3=log(b+c)+f(d+e)"
    )


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
    lost = ("Thresholding", "AnyAbove", "HalfSpaces")
    rooms = ("jaxelim", "jaxelim.problems")
    assert public.missing() == {f"{room}.{name}" for room in rooms for name in lost}


def test_names_in_backticks_lead_to_the_reference(public):
    assert public.target("simulate") == public.target("je.simulate()") == "jaxelim.simulate"
    assert public.target("Result.save") == "jaxelim.Result.save"
    assert public.target("samples") is public.target("Result.nothing") is None
    assert public.found("jaxelim.Result.save") is je.Result.save


def test_the_settings_need_no_call_of_linux_alone(monkeypatch):
    """Up to its first import of the extensions; macOS has no os.sched_getaffinity."""
    for name in ("NPROC", "JAX_NUM_CPU_DEVICES", "JAX_COMPILATION_CACHE_DIR", "CI", "PYTHONPATH"):
        monkeypatch.setenv(name, "")  # put back afterwards
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    head = (DOCS / "conf.py").read_text().partition("import inventories")[0]
    exec(compile(head, "conf.py", "exec"), {"__file__": str(DOCS / "conf.py")})
    assert int(os.environ["JAX_NUM_CPU_DEVICES"]) >= 1
