"""Rewards that enter after their pulls: the definition, read pull by pull."""

class Pending:
    """The pulls of a run whose rewards have not entered.

    The reward of the pull chosen as sample s enters at the first batch end at or after
    s + delay; batch ends are `start` + batch, `start` + 2 batch, ..
    """

    def __init__(self, start, batch=1, delay=0):
        self.start, self.batch, self.delay = start, batch, delay
        self.waiting = []

    def end(self, s):
        """When the reward of sample s enters."""
        end = self.start
        while end < s + self.delay:
            end += self.batch
        return end

    def chosen(self, s, arm, reward):
        """Sample s was chosen."""
        self.waiting.append((self.end(s), arm, reward))

    def entering(self, samples):
        """The (arm, reward) that enter once so many samples were chosen, in their order."""
        entering = [(arm, reward) for end, arm, reward in self.waiting if end <= samples]
        self.waiting = [pull for pull in self.waiting if pull[0] > samples]
        return entering
