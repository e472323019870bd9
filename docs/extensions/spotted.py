"""Formulas in lines of prose.

    spans("Arm k has the mean phi_k . theta.")

gives the places of `k` and of `phi_k . theta`. A formula is a run of tokens that `plain.latex`
can write, with a symbol among them. Units, labels, abbreviations and the article "a" are none.
"""

import re
from collections.abc import Iterator

from plain import END, FUNCTIONS, GREEK, LAWS, SOFT, Broken, Token, latex, letter, times, tokens

RELATIONS = ("+=", ":=", "<-", "<=", ">=", "!=", "=", "<", ">", "~", "->")
BINARY = ("+", "-", "-+", "+-", "±", "×", "*", "/", ".", *RELATIONS)
NOT_ALONE = "aACDEIOXx"
"""Single letters that are words or labels unless an operator stands beside them."""
CALL = re.compile(r"(?<![\w^.])[A-Za-z]\w{2,}\([^()]*\)")
UNITS = ("s", "h", "m", "x", "d", "k")


def spans(text: str) -> Iterator[tuple[int, int]]:
    """Where formulas stand in a line of prose."""
    text = CALL.sub(lambda call: kept(call.group()), times(text))
    found = tokens(text)
    at = 0
    while at < len(found):
        end = run(text, found, at)
        first, last = trimmed(text, found, at, end)
        if first < last and strong(text, found[first:last]):
            yield found[first].start, found[last - 1].end
        at = max(end, at + 1)


def kept(call: str) -> str:
    """A call of a program's function, blanked out; a formula's as it is."""
    name = call.partition("(")[0]
    known = {*GREEK, *FUNCTIONS, *LAWS, *SOFT}
    base = name.split("_")[0]
    return call if base in known or letter(base) is not None else "@" * len(call)


def parts(text: str) -> list[str]:
    """A formula in parts between which a line may break, before operators outside brackets."""
    if len(text) < 28:
        return [text]
    depth, bars, cuts = 0, 0, [0]
    for token in tokens(text):
        depth += (token.kind == "open") - (token.kind == "close")
        bars += token.text in ("|", "||")
        breaks = token.text in (*RELATIONS, "+", "-") and token.spaced and token.loose
        if breaks and not depth and not bars % 2 and token.start - cuts[-1] > 6:
            cuts.append(token.start)
    return [text[a:b].strip() for a, b in zip(cuts, [*cuts[1:], len(text)], strict=True)]


def run(text: str, found: list[Token], at: int) -> int:
    """The end of the longest run of tokens from `at` that may be one formula."""
    while at < len(found):
        token = found[at]
        if token.kind == "open":
            end = closed(text, found, at)
            if not end:
                return at
            at = end
        elif belongs(text, found, at):
            at += 1
        else:
            return at
    return at


def closed(text: str, found: list[Token], at: int) -> int:
    """The place behind a bracket's end if all inside is mathematics, else 0."""
    place = at + 1
    while place < len(found) and found[place].kind != "close":
        token = found[place]
        if token.kind == "open":
            place = closed(text, found, place)
            if not place:
                return 0
        elif found[at].text == "{" and token.text in ("active", "in", "not", "and"):
            place += 1
        elif token.text in (",", ":", ";", "..", "...") or belongs(text, found, place, True):
            place += 1
        elif token.text == "." and beside(found, place, 1).kind == "close":
            place += 1
        else:
            return 0
    if place >= len(found) or (found[at].text == "{") != (found[place].text == "}"):
        return 0
    if found[at].spaced and found[at].text == "(" and place == at + 2:
        if len(found[at + 1].text) == 1 or found[at + 1].kind == "number":
            return 0  # "(s)", "(3)"
    return place + 1


def beside(found: list[Token], at: int, step: int) -> Token:
    place = at + step
    return found[place] if 0 <= place < len(found) else END


def operates(found: list[Token], at: int) -> bool:
    """Whether an operator, a script or an argument stands directly beside a token."""
    before, behind = beside(found, at, -1), beside(found, at, 1)
    script = behind.text in ("^", "_") and not behind.spaced
    called = behind.text == "(" and not behind.spaced
    left = before.text in BINARY and before.text != "." or before.text in ("^", "_")
    right = behind.text in BINARY and behind.text != "."
    if before.text in ("-", "/") and not before.spaced and not before.loose:
        left = before.text == "/" and beside(found, at, -2).kind in ("close", "number")
    if behind.text in ("-", "/") and not behind.spaced:
        right = behind.text == "/" and not behind.loose
    dots = (behind.text == "." and behind.spaced and behind.loose) or (
        before.text == "." and before.spaced and before.loose
    )
    return script or called or left or right or dots


def belongs(text: str, found: list[Token], at: int, inside: bool = False) -> bool:
    """Whether a token may stand in a formula."""
    token, before, behind = found[at], beside(found, at, -1), beside(found, at, 1)
    if token.kind == "number":
        return text[token.end : token.end + 1] != "%" and not glued(text, token)
    if token.kind == "name":
        return not glued(text, token) and named(text, found, at, inside)
    if token.kind != "op":
        return False
    if token.text in ("^", "_"):
        return not token.spaced and (before.kind != "name" or named(text, found, at - 1, inside))
    if token.text == "'":
        return before.text != "s" and not token.spaced and not text[token.end :][:1].isalpha()
    if token.text == "*":
        return not token.spaced or token.loose
    if token.text == ".":
        return token.spaced and token.loose and behind.kind in ("name", "open", "number")
    if token.text == "-":
        tight = not token.spaced and not token.loose
        words = before.kind == "name" and behind.kind == "name"
        if not token.spaced and token.loose:
            return False  # as in "C- and D-tracking"
        return not (tight and words) and not (tight and before.kind == "number" == behind.kind)
    if token.text in ("..", "..."):
        return inside
    if token.text in (",", ":", ";"):
        return False
    if token.text == "/":
        return before.kind in ("name", "number", "close") or before.text in ("*", "'", "||", "|")
    return True


def glued(text: str, token: Token) -> bool:
    """Whether a token is a part of a word, a file or an abbreviation."""
    before, behind = text[: token.start][-2:], text[token.end :][:2]
    if behind[:1] == "." and behind[1:2].isalnum():
        return True
    if before[-1:] in ('"', "'", "@", "#", "$", "\\", "`", "”", "“") or behind[:1] in (
        '"',
        "@",
        "`",
    ):
        return True
    if len(before) == 2 and before[1] == "." and before[0].isalnum():
        return True
    if token.kind == "name" and (before[-1:].isdigit() or behind[:1].isalnum()):
        return True
    return before[-1:].isalpha() or (before[-1:] == "-" and before[:1].isalnum())


def named(text: str, found: list[Token], at: int, inside: bool) -> bool:
    """Whether a name may stand in a formula."""
    token, before, behind = found[at], beside(found, at, -1), beside(found, at, 1)
    name = token.text
    if before.text in ("_", "^") and not token.spaced:
        return belongs(text, found, at - 1, inside)
    hyphen = behind.text == "-" and not behind.spaced and not behind.loose
    sub = beside(found, at, 2)
    if behind.text == "_" and sub.kind == "name" and len(sub.text) > 3 and letter(name) is None:
        return name in SOFT  # as in max_samples
    if behind.text == "_" and not behind.spaced and letter(name) is None:
        return not glued(text, token) and name in (*FUNCTIONS, *SOFT, "KL")
    if name == "lambda" and before.text in ("a", "A", "as") and not operates(found, at):
        return False
    if name in GREEK:
        return True
    if name in FUNCTIONS:
        script = behind.text in ("_", "(", "{") and not behind.spaced
        script = script or (name == "sum" and behind.kind == "open")
        plain = behind.kind in ("name", "number", "open") or behind.text in ("||", "|")
        english = name in ("max", "min", "sum", "inf", "sup", "sign", "floor", "prod", "integral")
        if name in ("sum", "integral") and behind.text in ("sum", "prod") and sub.text == "_":
            return True
        if english and not script:
            return (
                behind.kind == "name"
                and letter(behind.text) is not None
                and (
                    behind.text not in NOT_ALONE
                    and (inside or operates(found, at) or name != "sign")
                )
            )
        return script or plain
    if name in LAWS and behind.kind == "open" and not closed(text, found, at + 1):
        return False
    if name in LAWS or name in SOFT:
        return operates(found, at) or (inside and name in SOFT)
    if letter(name) is None:
        return False
    if len(name) == 1:
        if before.kind == "number" and name in UNITS and not operates(found, at):
            return False
        if before.text == "(" and before.spaced and behind.text == ")":
            return False  # a unit: "samples (k)"
        if name in NOT_ALONE and before.text != "log":
            return operates(found, at) or inside or (name == "I" and before.text == "ridge")
        if hyphen and not re.match(r"-(values?|tests?|scores?|th)\b", text[token.end :]):
            return False  # a name, as k-learner
    return True


def trimmed(text: str, found: list[Token], at: int, end: int) -> tuple[int, int]:
    """A run without operators and words at its ends."""

    def poor(token: Token) -> bool:
        return token.kind == "op" and token.text not in ("|", "||")

    def sign(token: Token) -> bool:
        return token.text == "-" and token.spaced and not token.loose

    while at < end and (found[at].kind == "close" or (poor(found[at]) and not sign(found[at]))):
        at += 1
    while at < end:
        last = found[end - 1]
        tail = last.text in ("'", "*") and not last.spaced and end - 2 >= at
        if (poor(last) and not tail) or last.text in FUNCTIONS or last.kind == "open":
            end -= 1
        else:
            break
    return at, end


def strong(text: str, part: list[Token]) -> bool:
    """Whether tokens are surely a formula, and one that can be written."""
    whole = text[part[0].start : part[-1].end]
    if whole in ("A/B", "I/O", "C") or whole.startswith("A/B"):
        return False
    if not any(one.kind == "name" for one in part):
        return bool(re.search(r"\d\^", whole))
    plain = all(one.kind != "name" or one.text in SOFT for one in part)
    if plain and not re.search(r"\w[\^_]", whole):
        return False
    if re.sub(r" \| ", "", whole).count("|") % 2:
        return False
    try:
        latex(whole)
    except Broken:
        return False
    return True
