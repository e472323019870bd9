"""Instances of every family are values: copies, files, slices, stacks, stores, equality."""

import copy
import pickle

import numpy as np
import pytest

import jaxelim as je
from jaxelim.families import Betas, Normal, Points
from tests.calls import NAMES
from tests.families.family_cases import Binomial
from tests.instances.instance_cases import stack

arms = je.Instance.unstructured
ONE, TWO = [0.9, 0.2, 0.3, 0.4], [[0.9, 0.2, 0.3, 0.4], [0.1, 0.7, 0.5, 0.3]]
STD = [1.0, 0.5, 2.0, 0.1 + 0.2]
FAMILIES = [
    je.Bernoulli(), je.Poisson(), je.Exponential(), je.Gaussian(STD), je.Gaussian(2.0),
    je.GaussianUnknownVariance("free"), je.GaussianUnknownVariance("glr"), je.Bounded(-1, 3),
    je.Logistic(), Binomial(3),
]  # fmt: skip
SOURCED = [
    arms(ONE, je.GaussianUnknownVariance(), source=Normal(STD)),
    arms(family=je.Poisson(), source=Points([0, 1], [[0.3, 0.7], [0.9, 0.1]])),
    arms(family=je.Gaussian(0.5), source=Betas([(4, 1), (1, 2)])),
    arms(family=je.Gaussian(2.0), source=je.Recorded([[0.5, 1, 2], [0, 1]])),
]
INSTANCES = [
    *(arms(means, family, name="small") for family in FAMILIES for means in (ONE, TWO)), *SOURCED
]  # fmt: skip


@pytest.mark.parametrize("instance", INSTANCES, ids=repr)
def test_an_instance_survives(instance, tmp_path):
    """Copies, pickles, files, slices, stacks, and the printed form."""
    family, path = instance.family, tmp_path / "mine.json"
    names = {**vars(je.families), **NAMES, "Binomial": Binomial}
    copies = [copy.copy(instance), copy.deepcopy(instance), pickle.loads(pickle.dumps(instance))]
    copies += [] if instance.batched else [eval(repr(instance), names)]
    if isinstance(family, Binomial):
        allowed = "family: got Binomial.* load_instance knows: gaussian, bernoulli"
        with pytest.raises(je.errors.UnsupportedError, match=allowed):
            instance.to_json(path)
        assert not path.exists()
    else:
        instance.to_json(path)
        copies.append(je.load_instance(path))
    for one in copies:
        assert one == instance and hash(one) == hash(instance) and one.name == instance.name
        assert one.family == family and type(one.family) is type(family)
        assert not one.arms.flags.writeable and not one.theta.flags.writeable
    if instance.batched:
        assert [one.family for one in instance] == [family] * 2 == [instance[-1].family] * 2
        assert instance[:1].family == family and stack(list(instance)) == instance
        assert stack([instance, instance[0]]).family == family
    assert family == instance.unbatched[0].family
    if getattr(instance.source, "means", None) is None:
        assert stack(instance).family == family


def test_equality_includes_the_family():
    plain = arms(ONE)
    assert plain == je.Instance(np.eye(4), ONE) == je.Instance(np.eye(4), ONE, family=je.Gaussian())
    assert hash(plain) == hash(je.Instance(np.eye(4), ONE)) and plain.structure == "unstructured"
    assert arms(ONE, noise_std=2.0) == je.Instance(np.eye(4), ONE, 2.0)
    kinds = [arms(ONE, family) for family in (*FAMILIES, je.Gaussian(), Binomial(4))] + SOURCED
    assert len(set(kinds)) == len(kinds) and all((a == b) == (a is b) for a in kinds for b in kinds)


def test_families_do_not_share_stored_results():
    """The key of a cell differs by the family."""
    kinds = [je.Gaussian(), je.Gaussian([1.0] * 4), je.Gaussian([1.0] * 3 + [2.0]),
             je.Exponential(), je.Poisson()]  # fmt: skip
    made = [je.Experiment(arms(ONE, kind), je.BestArm(), je.LUCB()) for kind in kinds]
    assert len({one.key for one in made}) == len(kinds)
