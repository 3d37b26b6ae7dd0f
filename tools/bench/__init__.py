"""Compares facula with torch and NumPy, side by side in one run."""
