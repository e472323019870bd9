"""Deals blocks of runs to workers, and takes their answers as they come."""

import concurrent.futures
import dataclasses
import sys
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

import numpy as np

from jaxelim.cluster.executors import Pool, pool_of
from jaxelim.cluster.remote import Answer, Task
from jaxelim.errors import WorkerMismatch, WorkersLost
from jaxelim.interrupts import Signals

TICK = 0.25
"""Seconds between two looks at progress and at the workers."""


@dataclasses.dataclass(frozen=True)
class WorkBlock:
    """Runs of a task.

    Attributes:
        task: the work.
        runs: run indices [n].
        label: names the block in messages.
        program: key of its compiled program; workers prefer programs that they have.
    """

    task: Task
    runs: np.ndarray
    label: str
    program: Hashable = None


class Listener(Protocol):
    """Hears of blocks, by their numbers in the sequence."""

    def began(self, number: int) -> None:
        """A block begins, or waits for a worker."""

    def moved(self, number: int, runs: int, samples: int, seconds: float) -> None:
        """So many of its runs are over, with so many samples and seconds."""

    def finished(self, number: int, content: Any) -> None:
        """Its task has returned this content."""


def say(line: str) -> None:
    """Print a line about the workers on standard error."""
    print(line, file=sys.stderr, flush=True)


def compute_all(executor: Any, blocks: Sequence[WorkBlock], listener: Listener) -> None:
    """Compute all blocks; tell the listener of each.

    Blocks come back in any order. A block whose worker dies is computed again on another.
    One that ends all its workers is tried a second time, after the others. An exception
    of a task, or of the listener, drops the other blocks.

    Args:
        executor: None for this process, else see `pool_of`.
        blocks: the work.
        listener: see there.

    Raises:
        ArgumentError: see `pool_of`.
        WorkersLost, SchedulerLost, WorkerMismatch: see there.
        Exception: whatever a task raises.
    """
    if executor is None:
        with Signals() as signals:
            for number, block in enumerate(blocks):
                listener.began(number)
                content = block.task.compute(block.runs, _reporter(listener, number))
                with signals.later():
                    listener.finished(number, content)
                signals.refuse()
        return
    pool = pool_of(executor)
    deal = _Deal(pool, blocks, listener)
    try:
        with Signals() as signals:
            deal.run(signals)
    finally:
        pool.cancel(list(deal.under_way))
        pool.close()


def _reporter(listener: Listener, number: int) -> Callable[[int, int, int, float], None]:
    def report(done: int, _: int, samples: int, seconds: float) -> None:
        listener.moved(number, done, samples, seconds)

    return report


class _Deal:
    """The blocks of one call, on one pool."""

    def __init__(self, pool: Pool, blocks: Sequence[WorkBlock], listener: Listener):
        self._pool, self._blocks, self._listener = pool, blocks, listener
        self.waiting = _interleaved(blocks)
        self.under_way: dict[concurrent.futures.Future, int] = {}
        self._owners: dict[Hashable, str] = {}  # the first worker of each program
        self._again: list[int] = []  # blocks that ended their workers once
        self._tried: set[int] = set()  # all that ever did
        self._failed: list[int] = []  # those that did twice
        self._platform = ""

    def run(self, signals: Signals) -> None:
        """Compute all blocks."""
        while self.waiting or self.under_way or self._again:
            signals.refuse()
            if not (self.waiting or self.under_way):
                self.waiting, self._again = self._again, []
            self._fill()
            done, _ = concurrent.futures.wait(
                self.under_way, TICK, concurrent.futures.FIRST_COMPLETED
            )
            self._tell()
            for future in done:
                self._take(future, signals)
            if not done:
                self._pool.check()
        if self._failed:
            names = ", ".join(self._blocks[number].label for number in self._failed)
            raise WorkersLost(
                f"{names}: each worker that computed this ended; was it out of memory?",
                "give workers more memory, or smaller blocks",
            )

    def _fill(self) -> None:
        """Submit as many blocks as there are workers."""
        room = self._pool.workers() - len(self.under_way)
        for _ in range(min(room, len(self.waiting))):
            self._submit(self.waiting.pop(0))

    def _submit(self, number: int) -> None:
        block = self._blocks[number]
        self._listener.began(number)
        future = self._pool.submit(number, block.label, block.task, block.runs)
        self.under_way[future] = number

    def _tell(self) -> None:
        """Pass on progress, and deaths of workers."""
        known = set(self.under_way.values())
        for number, runs, samples, seconds in self._pool.progress():
            if number in known:
                self._listener.moved(number, runs, samples, seconds)
        for numbers in self._pool.deaths():
            names = ", ".join(self._blocks[number].label for number in numbers)
            say(f"a worker was lost; computed again: {names}")

    def _take(self, future: concurrent.futures.Future, signals: Signals) -> None:
        number = self.under_way.pop(future)
        try:
            answer: Answer = future.result()
        except BaseException as error:
            self._failure(number, error)
            return
        self._check_platform(answer)
        following = self._following(number, answer.worker)
        if following is not None:  # before the answer is stored: the worker need not wait
            self._submit(following)
        with signals.later():
            self._listener.finished(number, answer.content)

    def _failure(self, number: int, error: BaseException) -> None:
        if self._pool.ended_workers(error):
            (self._failed if number in self._tried else self._again).append(number)
            self._tried.add(number)
            return
        raise self._pool.lost(error) or error

    def _following(self, number: int, worker: str) -> int | None:
        """The next block for a worker: one of a program that no other worker has, if any.

        No more blocks are under way than there are workers, so this idle worker gets it.
        Dask never runs a block that is bound to a worker, even loosely, once all are dead.
        """
        owners = self._owners
        owners.setdefault(self._blocks[number].program, worker)
        if not self.waiting or self._pool.workers() <= len(self.under_way):
            return None
        mine = (
            place
            for place, waiting in enumerate(self.waiting)
            if owners.get(self._blocks[waiting].program, worker) == worker
        )
        following = self.waiting.pop(next(mine, 0))
        owners.setdefault(self._blocks[following].program, worker)
        return following

    def _check_platform(self, answer: Answer) -> None:
        if answer.platform and self._platform and answer.platform != self._platform:
            raise WorkerMismatch(
                f"worker {answer.worker} computes on {answer.platform}, others on {self._platform}",
                "use workers of one kind: a CPU and a GPU round differently",
            )
        self._platform = self._platform or answer.platform


def _interleaved(blocks: Sequence[WorkBlock]) -> list[int]:
    """The order of blocks: one of each program in turn, so that workers begin with different."""
    turns: dict[Hashable, int] = {}
    order = []
    for number, block in enumerate(blocks):
        turns[block.program] = turns.get(block.program, -1) + 1
        order.append((turns[block.program], number))
    return [number for _, number in sorted(order)]
