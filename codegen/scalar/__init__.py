"""Of scalar formulas: trees, derivatives, C++."""
