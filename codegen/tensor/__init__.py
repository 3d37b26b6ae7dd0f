"""Of tensor formulas: values, calls, programs, derivatives."""
