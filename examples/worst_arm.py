"""A problem in one file: the arm of smallest mean, such as the variant to drop first.

python examples/worst_arm.py
"""

import dataclasses

import jax.numpy as jnp
import numpy as np

import jaxelim as je


@dataclasses.dataclass(frozen=True)
class WorstArm(je.contracts.Problem):
    """Identify the arm i with the smallest mean: the pieces are {mu_i >= mu_j}, of every other j.

    With epsilon, any arm within epsilon of it is right: {mu_i >= mu_j + epsilon}.

    Args:
        epsilon: at least 0, in the units of the rewards.
    """

    epsilon: float = 0.0
    name = "worst-arm"

    def check(self, arms, theta):
        lowest = np.sort(arms @ theta)[:2]
        if lowest[0] == lowest[1] and not self.epsilon:
            allowed = "one worst arm"
            raise je.errors.ArgumentError("instance", "two arms with the same least mean", allowed)

    def scaled(self, scale):
        return WorstArm(self.epsilon / scale)

    def answer(self, seen):
        return jnp.argmin(seen.means)

    def public(self, seen, answer):
        return jnp.arange(len(seen.means)) == answer

    def shape(self, seen, answer):
        arms = jnp.arange(len(seen.means))
        exists = (arms[:, None] != answer) & (arms == answer)  # of each j, the pair (j, i)
        return je.contracts.Pairs(arms, exists.ravel(), slack=self.epsilon, count=len(arms) - 1)

    def correct(self, answers, truth, means):
        return np.any(answers & (means <= means.min() + self.epsilon), -1)

    def wrong_answers(self, arms):
        return arms - 1


if __name__ == "__main__":
    coins = je.Instance.unstructured([0.6, 0.5, 0.45, 0.3], je.Bernoulli())
    for problem in (WorstArm(), WorstArm(0.1)):
        result = je.simulate(
            coins, problem, je.Uniform(), runs=200, delta=0.05, threshold=je.Mixture(),
            stopping=(je.LLR(), je.SelectiveElimination()),
        )  # fmt: skip
        print(result.summary())
