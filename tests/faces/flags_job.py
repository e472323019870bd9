"""One small job for `test_flags`: prints the digest of its arrays, or the error."""

import hashlib
import json

import numpy as np

import jaxelim as je


def digest() -> str:
    """SHA-256 of samples, stopped, answer and pulls of two observers."""
    arms = np.array(
        [[1.0, 0.0, 0.2], [0.0, 1.0, 0.1], [0.6, -0.8, 0.3], [-0.5, 0.5, 0.9], [0.3, 0.3, -1.0]]
    )
    instance = je.Instance(arms, [0.9, 0.2, -0.1])
    stopping = (je.LLR(), je.SelectiveElimination())
    result = je.simulate(
        instance, je.BestArm(), je.LinGapE(), delta=0.1, stopping=stopping, runs=41, seed=2**40 + 5
    )
    arrays = [getattr(result, name) for name in ("samples", "stopped", "answer", "pulls")]
    return hashlib.sha256(b"".join(np.ascontiguousarray(x).tobytes() for x in arrays)).hexdigest()


if __name__ == "__main__":
    try:
        print(json.dumps({"digest": digest()}))
    except je.errors.JaxelimError as error:
        print(json.dumps({"error": type(error).__name__, "text": str(error)}))
