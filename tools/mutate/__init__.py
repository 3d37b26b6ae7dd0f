"""Mutants: does a test notice when one operator, sign, bound, index or constant changes?"""
