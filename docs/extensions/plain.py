"""Formulas in plain text, as pages and docstrings write them, as LaTeX.

`latex` translates one formula, `block` an indented block of them:

    latex("LLR = max(margin, 0)^2/(2 ||y||^2_{V^-1})")

A name is a letter, a Greek letter by its name, or a function. Words are text. `_` begins a
subscript and `^` an exponent; `theta_hat` has a hat, `H*` a star; ` . ` is the inner product.
"""

import re
from typing import NamedTuple

GREEK = {
    name: f"\\{name}"
    for name in (
        "alpha beta gamma delta zeta eta theta kappa lambda mu nu xi pi rho sigma tau phi chi psi "
        "omega Phi Lambda Sigma Theta"
    ).split()
} | {"epsilon": r"\varepsilon", "eps": r"\varepsilon", "ell": r"\ell"}
FUNCTIONS = {
    name: f"\\{name}" for name in ("log", "exp", "max", "min", "sup", "inf", "det", "arcsin")
} | {
    "sum": r"\sum", "prod": r"\prod", "integral": r"\int", "sqrt": r"\sqrt",
    "argmax": r"\operatorname{argmax}", "argmin": r"\operatorname{argmin}",
    "kl": r"\operatorname{kl}", "lgamma": r"\log\Gamma", "ceil": r"\operatorname{ceil}",
    "floor": r"\operatorname{floor}", "sign": r"\operatorname{sign}",
    "grad": r"\nabla", "supp": r"\operatorname{supp}", "tanh": r"\tanh",
    "arctan": r"\arctan", "mod": r"\bmod",
}  # fmt: skip
LAWS = ("Beta", "Gamma", "KL", "LLR")
"""Names of more than one letter that stand upright, alone or before an argument."""
SOFT = (
    "margin", "ridge", "level", "mean", "high", "low", "std", "sd", "se", "noise_std", "gap",
    "value", "arm", "up", "down", "ours", "other", "paper", "step", "LLR",
    "scale", "factor", "pieces", "arms",
)  # fmt: skip
"""Words that are names where an operator stands beside them."""
OPERATORS = {
    "<=": r"\le", ">=": r"\ge", "!=": r"\ne", "->": r"\to", "<-": r"\leftarrow", "-+": r"\mp",
    "+-": r"\pm", "±": r"\pm", "~": r"\propto", "+=": r"\text{+=}", "×": r"\times", "*": r"\cdot",
    "...": r"\ldots", "..": r"\ldots", ".": r"\cdot",
    **{sign: sign for sign in (":=", "=", "<", ">", "+", "-", "!", ":", ",", ";")},
}  # fmt: skip
TRANSPOSED = ("phi", "Phi", "y", "z", "Z", "Y", "u")

TOKEN = re.compile(
    r"(?P<number>\d{1,3}(?:,\d{3})+(?!\d)|\d+(?:\.\d+)?(?:e-?\d+)?|(?<![\w.])\.\d+)"
    r"|(?P<name>noise_std|[A-Za-z]+(?:\d(?![\d\w]))?)"
    r"|(?P<op>\|\||\+=|:=|<-(?=\s)|<=|>=|!=|->|-\+|\+-|\.\.\.?|[-+*/=<>~±×^_|'!.,:;])"
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<other>\S)"
)


def times(text: str) -> str:
    """With a sign for the x of "3 x 10^7" and "K x d"."""
    return re.sub(r"(?<=[\dKdn]) x (?=\d|[KdB]\b|K\b)", " × ", text)


class Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int
    spaced: bool  # a space or the begin of the text stands before it
    loose: bool  # a space or the end of the text stands behind it


def tokens(text: str) -> list[Token]:
    """The tokens of a text."""
    found = []
    for one in TOKEN.finditer(text):
        start, end = one.span()
        before = start == 0 or text[start - 1].isspace()
        behind = end == len(text) or text[end].isspace()
        found.append(Token(one.lastgroup or "", one.group(), start, end, before, behind))
    return found


def letter(name: str) -> str | None:
    """The LaTeX of a name that is one symbol, or None."""
    base, digit = (name[:-1], name[-1]) if name[-1].isdigit() else (name, "")
    if digit and base.isupper():
        return None  # a cache, a card
    if base in GREEK:
        made = GREEK[base]
    elif len(base) == 1:
        made = base
    elif base[0] == "d" and (base[1:] in GREEK or (len(base) == 2 and base[1] in "HTwuxyq")):
        made = rf"\mathrm{{d}}{GREEK.get(base[1:], base[1:])}"
    else:
        return None
    return f"{made}_{digit}" if digit else made


END = Token("end", "", 0, 0, True, True)


class Broken(ValueError):
    """A text that is no formula."""


class Parser:
    """One pass over the tokens of a formula; `display` builds fractions."""

    def __init__(self, text: str, display: bool):
        self.tokens, self.at, self.display, self.depth = tokens(text), 0, display, 0

    def peek(self, ahead: int = 0) -> Token:
        place = self.at + ahead
        return (
            self.tokens[place] if place < len(self.tokens) else Token("end", "", 0, 0, True, True)
        )

    def next(self) -> Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def sequence(self, close: str = "") -> str:
        """LaTeX up to a closing token, which stays, or to the end."""
        parts: list[str] = []
        factors: list[int] = []  # where the parts of the product so far begin
        while self.peek().kind != "end":
            token = self.peek()
            if token.kind == "close" or (token.text == close and self.closes(token)):
                break
            if token.text == "/":
                self.next()
                below = self.factor(stripped=self.display)
                if not self.display or not factors:
                    parts += ["/", below]
                    continue
                first = factors[0] if token.spaced else factors[-1]
                above = " ".join(parts[first:])
                if self.depth and re.fullmatch(r"\\?\w+(_\w)?", above) and " " not in below:
                    parts += ["/", below]
                    continue
                parts[first:] = [rf"\frac{{{self.bare(above)}}}{{{below}}}"]
                factors = [one for one in factors if one <= first]
            elif token.kind == "op" and token.text not in ("|", "||", "^", "_", "'"):
                self.next()
                factors = []
                parts.append(self.operator(token))
            else:
                if token.kind == "number" and factors and parts[-1][-1:].isdigit():
                    parts[-1] += r" \times"
                factors.append(len(parts))
                parts.append(self.factor())
        return " ".join(parts)

    def operator(self, token: Token) -> str:
        if token.text not in OPERATORS:
            raise Broken(token.text)
        if token.text == "." and self.peek().kind != "close" and not (token.spaced and token.loose):
            return "."
        return OPERATORS[token.text]

    def closes(self, token: Token) -> bool:
        return token.text in ("|", "||") and not (token.spaced and token.loose)

    def bare(self, text: str) -> str:
        """A numerator without the brackets around all of it."""
        depth = 0
        marks = list(re.finditer(r"\\(left|right)\b", text))
        for one in marks:
            depth += 1 if one.group(1) == "left" else -1
            if not depth:
                whole = (
                    one is marks[-1] and text.startswith(r"\left(") and text.endswith(r"\right)")
                )
                return text[6:-7].strip() if whole else text
        return text

    def factor(self, stripped: bool = False) -> str:
        """A symbol, number, word or bracket, with what hangs on it."""
        token = self.next()
        transposed = False
        if token.text == "/":
            raise Broken("/")
        if token.kind == "number":
            made = self.number(token.text)
        elif token.kind == "open":
            whole = self.bracket(token)
            made = self.hung(whole, False)
            return self.bare(made) if stripped and made == whole else made
        elif token.text == "||" or token.text == "|":
            if token.text == "|" and token.spaced and token.loose:
                return r"\mid"
            inside = self.sequence(token.text)
            if self.peek().text != token.text:
                raise Broken("|")
            self.next()
            left, right = (r"\lVert", r"\rVert") if token.text == "||" else (r"\lvert", r"\rvert")
            made = f"{left} {inside} {right}"
        elif token.kind == "name":
            transposed = token.text in TRANSPOSED
            if self.peek().text == "_" and self.peek(1).text == "hat":
                self.at += 2
                made = rf"\hat{{{letter(token.text) or token.text}}}"
            elif self.peek().text == "~" and not self.peek().spaced and not self.peek().loose:
                self.next()
                made = rf"\tilde{{{token.text}}}"
            elif token.text == "sqrt" and self.peek().text == "(":
                made = rf"\sqrt{{{self.bracket(self.next(), True)}}}"
            else:
                made = self.name(token.text)
        elif token.text == "-":
            return f"-{self.factor(stripped)}"
        else:
            raise Broken(token.text)
        return self.hung(made, transposed)

    def hung(self, made: str, transposed: bool) -> str:
        """With subscripts, exponents, primes, stars and calls."""
        down, up = "", ""
        while True:
            token = self.peek()
            if token.spaced or token.kind == "end":
                break
            if token.text == "_":
                self.next()
                down += self.script(sub=True)
            elif token.text == "^":
                self.next()
                up += self.script()
            elif token.text == "'":
                self.next()
                up += r"\top" if transposed else r"\prime"
            elif token.text == "*" and not self.operand(self.peek(1)):
                self.next()
                up += r"\star"
            else:
                break
        if down and re.search(r"_\d$", made):
            made = f"{{{made}}}"
        made += (f"_{{{down}}}" if down else "") + (f"^{{{up}}}" if up else "")
        if self.peek().kind == "open" and not self.peek().spaced:
            made += self.hung(self.bracket(self.next()), False)
        return made

    def operand(self, token: Token) -> bool:
        return not token.spaced and token.kind in ("name", "number")

    def script(self, sub: bool = False) -> str:
        """What stands behind `_` or `^`."""
        token = self.next()
        if token.text == "-":
            return f"-{self.script()}"
        if token.kind == "open":
            return self.bracket(token, True)
        if token.kind == "number":
            return token.text
        if token.kind != "name":
            raise Broken(token.text)
        known = letter(token.text)
        if known is None and sub:
            short = len(token.text) == 2 and token.text not in ("eb", "tc", "in")
            known = token.text if short else rf"\mathrm{{{token.text}}}"
        if self.peek().text == "_" and not self.peek().spaced:  # as in phi_k_s
            self.next()
            return f"{{{known}}}_{{{self.script(sub)}}}"
        if self.peek().text == "*" and not self.operand(self.peek(1)):
            self.next()
            return rf"{known}^{{\star}}"
        return known or self.name(token.text)

    def bracket(self, token: Token, stripped: bool = False) -> str:
        self.depth += 1
        inside = self.sequence()
        self.depth -= 1
        if self.peek().kind != "close":
            raise Broken(token.text)
        end = self.next().text
        if (token.text == "{") != (end == "}"):
            raise Broken(token.text)
        if stripped and token.text in "({" and end in ")}":
            return inside
        left, right = (r"\{", r"\}") if end == "}" else (token.text, end)
        if self.display:
            return rf"\left{left} {inside} \right{right}"
        return f"{left}{inside}{right}"

    @staticmethod
    def number(text: str) -> str:
        mantissa, _, exponent = text.partition("e")
        if exponent:
            power = f"10^{{{int(exponent)}}}"
            return power if mantissa == "1" else rf"{mantissa} \times {power}"
        return text.replace(",", "{,}")

    @staticmethod
    def name(text: str) -> str:
        if text in FUNCTIONS:
            return FUNCTIONS[text]
        if text in LAWS or text in SOFT:
            return rf"\mathrm{{{text}}}" if text.isalpha() else rf"\text{{{text}}}"
        return letter(text) or rf"\text{{ {text} }}"


def latex(text: str, display: bool = False) -> str:
    """A formula in LaTeX; `Broken` where it is none."""
    parser = Parser(times(text), display)
    made = parser.sequence()
    if parser.peek().kind != "end":
        raise Broken(text)
    return re.sub(r"\s+", " ", made).strip()


WORDS = frozenset(
    "over of if else for where in with on and elsewhere all each least mean margin ridge level "
    "some as by from inside the half to is at most same pair gradient allocations pieces set "
    "samples arms least".split()
)


def block(text: str) -> str | None:
    """The LaTeX of an indented block of formulas, a line each; None where it is not one.

    A line that begins with spaces goes on with the line above it.
    """
    lines = [one for one in text.split("\n") if one.strip()]
    known = {*GREEK, *FUNCTIONS, *LAWS, *SOFT, *WORDS, "hat"}
    for name in re.findall(r"[A-Za-z]+", re.sub(r"_\w+", "", text)):
        if len(name) > 2 and name not in known and letter(name) is None:
            return None
    if not re.search(r"[=~+/^]", text):
        return None
    for place in range(len(lines) - 1, 0, -1):  # a bracket over two lines
        if "\n".join(lines[:place]).count("(") > "\n".join(lines[:place]).count(")"):
            lines[place - 1] += " " + lines.pop(place).strip()
    made = []
    for line in lines:
        pieces = re.split(r",?\s{2,}(?=\S)", line.strip())
        try:
            done = r",\qquad ".join(latex(one.rstrip(",."), display=True) for one in pieces)
        except Broken:
            return None
        if line[0].isspace() and made:
            made.append(rf"&\quad {done}")
        else:
            before, mark, behind = done.partition(" = ")
            balanced = before.count(r"\left") == before.count(r"\right")
            aligned = mark and balanced and before.count("{") == before.count("}")
            made.append(f"{before} &= {behind}" if aligned else f"& {done}")
    if len(made) == 1:
        return made[0].replace("&", "", 1).strip()
    return r"\begin{aligned}" + r" \\ ".join(made) + r"\end{aligned}"
