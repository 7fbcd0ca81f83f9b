"""The small models and tables of the tests of estimators."""

from tests.estimators.conftest import X, fitted, make, pairs, y

__all__ = ["X", "fitted", "make", "pairs", "y"]
