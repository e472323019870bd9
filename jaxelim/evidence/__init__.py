"""What samples, or weights, say of pieces: linear Gaussian rewards, and half-spaces."""
