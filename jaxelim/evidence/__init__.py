"""What samples, or weights, say of the pieces of an answer, where arms have features."""
