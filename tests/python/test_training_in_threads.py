"""Eight threads that train models of their own, add to one gradient, and train one model."""

from __future__ import annotations

import threads_training


def test_models_of_their_own() -> None:
    threads_training.separate(5)


def test_one_gradient() -> None:
    threads_training.summed(10)


def test_one_model() -> None:
    threads_training.together(40)
