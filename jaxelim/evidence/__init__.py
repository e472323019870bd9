"""What samples, or weights, say of the pieces of an answer, one file for each kind of reward."""
