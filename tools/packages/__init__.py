"""The tests of public packages, on torch and on facula: see `__main__`."""
