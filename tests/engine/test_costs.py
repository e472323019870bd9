"""What programs cost, where threads share them."""

import threading
import time

import numpy as np
import pytest

import jaxelim as je
from jaxelim import engine
from jaxelim.engine.costs import Costs
from tests.engine.test_invariance import COMMON, equal
from tests.engine.test_one_lane import SMALL


class Slow(float):
    """A number whose arithmetic takes a while, in which other threads go on."""

    def __add__(self, other):
        total = float(self) + other
        time.sleep(0.02)
        return Slow(total)

    def __gt__(self, other):
        larger = float(self) > other
        time.sleep(0.02 * float(other))
        return larger


def together(work, arguments):
    threads = [threading.Thread(target=work, args=(x,)) for x in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_threads_lose_no_measurement():
    costs = Costs()
    costs.saved, costs.pace = Slow(0.0), Slow(np.inf)
    together(costs.save, [1.0] * 8)
    together(costs.paced, [1.0, 2.0, 3.0, 4.0])  # without a lock the last to compare wins
    assert (costs.saved, costs.pace) == (8.0, 1.0)


def test_one_lane_pays_once_it_has_saved_a_compilation():
    costs = Costs()
    costs.compiled(0.5)
    assert costs.compilation == 0.5
    costs.compiled(2.0)
    costs.compiled(1.0)
    assert [costs.save(0.8) for _ in range(3)] == [False, False, True]


@pytest.mark.slow
def test_calls_in_two_threads_share_a_program(monkeypatch):
    """The runs are those of a call alone, and no saving of either is lost."""
    rule, saved, save = je.LinGapE(rate=1.25), [], Costs.save

    def noted(costs, seconds):
        saved.append(seconds)
        return save(costs, seconds)

    def simulated(place):
        layout = je.Engine(devices=1, lanes=32)
        found[place] = je.simulate(SMALL, je.BestArm(), rule, engine=layout, **COMMON)

    monkeypatch.setattr(Costs, "save", noted)
    monkeypatch.setattr(Costs, "compiled", lambda costs, _: setattr(costs, "compilation", np.inf))
    found = {}
    together(simulated, range(2))
    equal(found[0], found[1])
    (program,) = (p for p in engine.program.values() if p.spec.rule == rule)
    assert program.traces == 1 and np.isclose(program.costs.saved, sum(saved))
