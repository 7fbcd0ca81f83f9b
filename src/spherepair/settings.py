"""What parameters and settings may be: numbers within bounds, words, flags; all else is one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, validate_parameter_constraints
from sklearn.utils._param_validation import InvalidParameterError as SklearnInvalidParameterError

from spherepair.errors import InvalidParameterError, quoted


@dataclass(frozen=True)
class Number:
    """The rule of a setting that is a number, or one of some words; true and false are none.

    Parameters
    ----------
    least, most : float
    whole : bool, default=False
    above : bool, default=False
        Whether `least` itself is too little.
    words : tuple of str or None
        What else it may be.

    Examples
    --------
    >>> print(Number(1, 9, whole=True, words=("auto",)))
    'auto' or a whole number from 1 to 9
    >>> Number(0, 1).allows(0.5), Number(0, 1).allows(True), Number(0, 1).allows(float("nan"))
    (True, False, False)
    """

    least: float
    most: float
    whole: bool = False
    above: bool = False
    words: tuple[str | None, ...] = ()

    def allows(self, value: Any) -> bool:
        """Whether a value follows the rule."""
        if value is None or isinstance(value, str):
            return value in self.words
        if isinstance(value, bool) or not isinstance(value, Integral if self.whole else Real):
            return False
        number: Any = value  # "Real" promises no comparison with a float
        return bool(self.least < number <= self.most or (number == self.least and not self.above))

    def __str__(self) -> str:
        low = f"above {self.least:g} and up to" if self.above else f"from {self.least:g} to"
        most = str(self.most) if self.whole else f"{self.most:g}"
        number = f"a {'whole number' if self.whole else 'number'} {low} {most}"
        return " or ".join([*(repr(word) for word in self.words), number])


@dataclass(frozen=True)
class Kind:
    """The rule of a setting that is of a class.

    Examples
    --------
    >>> print(Kind(bool), "and", Kind(str))
    True or False and a text
    """

    wanted: type

    def allows(self, value: Any) -> bool:
        """Whether a value follows the rule."""
        return isinstance(value, (bool, np.bool_) if self.wanted is bool else self.wanted)

    def __str__(self) -> str:
        return {bool: "True or False", str: "a text"}.get(self.wanted, self.wanted.__name__)


def require(settings: Any, **rules: Number | Kind) -> None:
    """Refuse settings with a field that does not follow its rule.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> require(SimpleNamespace(epochs="many"), epochs=Number(1, 9, whole=True))
    Traceback (most recent call last):
    spherepair.errors.InvalidParameterError: SimpleNamespace: epochs must be a whole number from 1 to 9, \
got 'many' instead.
    """
    for name, rule in rules.items():
        value = getattr(settings, name)
        if not rule.allows(value):
            raise InvalidParameterError(
                f"{type(settings).__name__}: {name} must be {rule}, got {quoted(value)} instead."
            )


def check_parameters(estimator: Any) -> None:
    """Refuse a parameter that does not follow the rules of its estimator; what is quoted of it is short."""
    for name, value in estimator.get_params(deep=False).items():
        rules = estimator._parameter_constraints.get(name, [])
        try:
            validate_parameter_constraints({name: rules}, {name: value}, caller_name=type(estimator).__name__)
        except SklearnInvalidParameterError as error:
            said = str(error).partition(". Got ")[0]
            raise InvalidParameterError(f"{said}, got {quoted(value)} instead.") from error
        if isinstance(value, bool | np.bool_) and _is_number(rules):
            raise InvalidParameterError(
                f"The {name!r} parameter of {type(estimator).__name__} must not be {value}: true and false "
                "are no numbers."
            )


def _is_number(rules: list[Any]) -> bool:
    """Whether a parameter with these rules of scikit-learn is a number and no flag."""
    return "boolean" not in rules and any(
        isinstance(rule, Interval) or rule == "random_state" for rule in rules if not isinstance(rule, type)
    )
