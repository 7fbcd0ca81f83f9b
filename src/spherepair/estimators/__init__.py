"""Estimators with scikit-learn's interface; ``base.py`` tells the story of ``fit``."""
