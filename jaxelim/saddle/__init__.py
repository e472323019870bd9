"""The saddle point max over allocations w of min over pieces p of H_p(w) + c . w."""
