"""Sections 4 and 6: elimination.

Each set has these members. `update(seen, threshold)` returns the number of pieces tested.
`answer(seen)` is the answer if it stops, else None. `keeps(labels)` says which pieces are still
active. `size` is the traces' `active`; `times` has 0 for never.
"""

import numpy as np


class Nothing:
    """No elimination: LLR stopping (section 5) tests all of the answer's pieces."""

    def __init__(self, pieces, full):
        self.pieces = pieces
        self.size = 0 if pieces.kind == "topm" else pieces.P
        self.times = np.zeros((pieces.P,) * (2 if pieces.kind == "topm" else 1), int)

    def update(self, seen, threshold):
        values = seen.values(self.pieces.of(seen.answer))
        self.stops = np.min(values) > threshold
        return len(values)

    def answer(self, seen):
        return seen.answer if self.stops else None


class Mask:
    """Active places, which fall with their pieces; `axes` of a piece's label name its place."""

    axes = (1,)

    def __init__(self, pieces, full, axes=None):
        self.pieces, self.full, self.axes = pieces, full, axes or self.axes
        both = pieces.candidates, 2 if pieces.kind == "osi" else pieces.candidates
        shape = tuple(both[axis] for axis in self.axes)
        self.active, self.times = np.ones(shape, bool), np.zeros(shape, int)

    def place(self, labels):
        return tuple(labels[:, axis] for axis in self.axes)

    def keeps(self, labels):
        return self.active[self.place(labels)]

    tested = keeps

    def fall(self, seen, labels, threshold):
        """Drop the refuted ones of these pieces, which are returned."""
        gone = labels[seen.values(labels) > threshold]
        self.active[self.place(gone)] = False
        self.times[self.place(gone)] = seen.t
        return gone

    def update(self, seen, threshold):
        labels = self.pieces.every() if self.full else self.pieces.of(seen.answer)
        labels = labels[self.tested(labels)]
        self.fall(seen, labels, threshold)
        return len(labels)

    @property
    def size(self):
        return int(self.active.sum())


class Candidates(Mask):
    """A mask: candidate k falls to the best one (selective), or to any, out or not (full)."""

    def answer(self, seen):
        if self.size > 1:
            return None
        return self.active[: self.pieces.P].copy() if self.size == 1 else seen.answer


class Pairs(Mask):
    """Pieces (j, k), until j is found: refuted are those of at least C - m candidates k."""

    axes = (0, 1)

    @property
    def found(self):
        return (~self.active).sum(axis=1) >= self.pieces.candidates - self.pieces.m

    def tested(self, labels):
        return ~self.found[labels[:, 0]] & self.keeps(labels)

    def answer(self, seen):
        if self.found.sum() < self.pieces.m:
            return None
        if self.pieces.kind == "reference":  # the found candidate of largest mean
            means = np.where(self.found, np.append(seen.means, self.pieces.level), -np.inf)
            return np.arange(self.pieces.K) == np.argmax(means)
        return self.pieces.answer(np.where(self.found, seen.means, -np.inf))

    @property
    def size(self):
        return int((~self.active).sum())


class Signs(Mask):
    """A mask of active arms and the signs found; with slack full tests the other sides too."""

    axes = (0,)

    def __init__(self, pieces, full):
        super().__init__(pieces, full)
        self.sides, self.signs = 2 if full and pieces.slack else 1, np.zeros(pieces.K, bool)

    def update(self, seen, threshold):
        tests = self.sides * self.size
        for answer in (seen.answer, ~seen.answer)[: self.sides]:
            arms, signs = self.fall(seen, self.pieces.of(answer)[self.active], threshold).T
            self.signs[arms] = signs
        return tests

    def answer(self, seen):
        return None if self.active.any() else self.signs.copy()


class Definition:
    """The general definition: active pieces per answer, the paper's P_t^stp(i).

    Selective: only the empirical answer's set shrinks, and it stops when that set is empty. Full:
    every answer's does, and it stops when any is empty, the empirical one or the first.
    """

    def __init__(self, pieces, full):
        self.pieces, self.full = pieces, full
        self.sets, self.times = {}, {}
        for answer in pieces.answers() if full else []:
            self._of(answer)

    def _of(self, answer):
        return self.sets.setdefault(tuple(answer.tolist()), self.pieces.of(answer))

    def update(self, seen, threshold):
        self._of(seen.answer)
        tests = 0
        for name in self.sets if self.full else [tuple(seen.answer.tolist())]:
            labels = self.sets[name]
            gone = seen.values(labels) > threshold
            for piece in labels[gone].tolist():
                self.times[name, tuple(piece)] = seen.t
            self.sets[name] = labels[~gone]
            tests += len(labels)
        return tests

    def answer(self, seen):
        if len(self._of(seen.answer)) == 0:
            return seen.answer
        empty = [np.array(name) for name, labels in self.sets.items() if len(labels) == 0]
        return empty[0] if self.full and empty else None

    @property
    def size(self):
        return sum(len(labels) for labels in self.sets.values())


def elimination_set(pieces, name):
    """The set of a stopping rule's name."""
    if name in ("llr", "native"):
        return Nothing(pieces, False)
    kind = Pairs if pieces.several else Signs if pieces.kind == "osi" else Candidates
    return (Definition if name.endswith("definition") else kind)(pieces, name.startswith("full"))


class Resets:
    """The setting `elimination=Resets("selective")`.

    Args:
      rule: "selective" or "full".
      alpha: None, or a function of (t, delta).
      t0: None, or a number.
    """

    def __init__(self, rule="selective", alpha=None, t0=None):
        self.full, self.alpha, self.t0 = rule == "full", alpha, t0


class ResetSets:
    """Helper and last (section 6): masks over labels; resets at t = ceil(t0^(2^j))."""

    def __init__(self, pieces, settings, beta, delta):
        constants = getattr(beta, "constants", None)
        if constants is None and settings.alpha is None:
            raise ValueError("this threshold has no c1, c2, x0: give alpha")
        self.alpha, self.delta = settings.alpha or paper_alpha(beta), delta
        t0 = settings.t0 or max(2.0, np.sqrt(constants[2]) if constants else 0.0)
        self.times = {int(np.ceil(t0 ** (2**j))) for j in range(6) if t0 ** (2**j) < 1e15}
        axes = (0, 1) if pieces.several or pieces.kind == "osi" else (1,)
        self.fresh = lambda: Mask(pieces, settings.full, axes)
        self.helper, self.last = self.fresh(), self.fresh()

    def update(self, seen, threshold):
        if seen.t in self.times:
            self.last, self.helper = self.helper, self.fresh()
        self.helper.update(seen, self.alpha(seen.t, self.delta))

    def keeps(self, labels):
        return self.helper.keeps(labels) & self.last.keeps(labels)


def paper_alpha(beta):
    """(sqrt(beta + (4 c2 - c1) log t) + 4 sqrt((c2/c1) beta(t, 1/t^2)))^2."""

    def alpha(t, delta):
        c1, c2, _ = beta.constants
        first = np.sqrt(beta(t, delta) + (4.0 * c2 - c1) * np.log(t))
        return (first + 4.0 * np.sqrt(c2 / c1 * beta(t, float(t) ** -2))) ** 2

    return alpha
