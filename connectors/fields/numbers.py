"""Operations on numbers. Nothing in here computes with floats."""

import re
from dataclasses import dataclass
from decimal import (
    ROUND_05UP,
    ROUND_DOWN,
    ROUND_HALF_EVEN,
    ROUND_HALF_UP,
    Context,
    Decimal,
    DecimalException,
    Inexact,
    InvalidOperation,
    Overflow,
    Underflow,
)

from connectors.fields.errors import Refusal
from connectors.fields.steps import Convert
from models.operation_rules import NumberRule, ScaleRule

_MAX_DIGITS = 200
_ROUNDINGS = {"half-up": ROUND_HALF_UP, "half-even": ROUND_HALF_EVEN, "down": ROUND_DOWN}

# One instance of each for all threads: calls read the settings, and nobody reads the flags.
_EXACT = Context(prec=_MAX_DIGITS, traps=[Inexact, InvalidOperation, Overflow, Underflow])
#: ROUND_05UP leaves the decision to the rounding that follows, which so is right.
_TO_BE_ROUNDED = Context(
    prec=_MAX_DIGITS, rounding=ROUND_05UP, traps=[InvalidOperation, Overflow, Underflow]
)


@dataclass(frozen=True, slots=True)
class _Notation:
    """How one locale writes numbers: patterns for its signs, and how it groups digits."""

    decimal: str
    group: str | None
    minus: str = "[-\u2212]"
    plus: str = "[+]"
    last_group: int = 3
    other_groups: int = 3

    def pattern(self) -> re.Pattern[str]:
        """Return what matches numbers and nothing that could be another number elsewhere."""
        whole = "[0-9]+"
        if self.group is not None:
            first = f"[1-9][0-9]{{0,{self.other_groups - 1}}}"
            others = f"(?:{self.group}[0-9]{{{self.other_groups}}})*"
            whole = f"{first}{others}{self.group}[0-9]{{{self.last_group}}}|{whole}"
        sign = f"(?:(?P<minus>{self.minus})|{self.plus})?"
        return re.compile(f"{sign}(?P<whole>{whole})(?:{self.decimal}(?P<fraction>[0-9]+))?")


def read_number(rule: NumberRule) -> Convert:
    """Return what reads a text; what is a number already passes unchanged."""
    pattern = _notation(rule).pattern()
    kind = f"locale {rule.locale}" if rule.locale else "the configured separators"

    def read(value: object) -> Decimal | int:
        if not isinstance(value, str):
            return _number(value)
        text = value.strip()
        found = pattern.fullmatch(text) if len(text) <= _MAX_DIGITS else None
        if found is None:
            msg = f"is no number as {kind} writes it; correct the source or the operation"
            raise Refusal(msg)
        sign = "-" if found["minus"] else ""
        whole = "".join(filter(str.isdigit, found["whole"]))
        return Decimal(f"{sign}{whole}.{found['fraction'] or ''}")

    return read


def scale(rule: ScaleRule) -> Convert:
    """Return what computes value x multiply / divide, exactly or rounded once."""
    context = _EXACT if rule.digits is None else _TO_BE_ROUNDED
    step = None if rule.digits is None else Decimal(1).scaleb(-rule.digits)

    def compute(value: object) -> Decimal:
        number = _number(value)
        try:
            result = context.multiply(number, rule.multiply)
            if rule.divide != 1:
                result = context.divide(result, rule.divide)
            if step is None:
                return result
            return result.quantize(step, _ROUNDINGS[rule.rounding], context)
        except DecimalException:
            msg = f"has more than {_MAX_DIGITS} digits after scaling; correct the source"
            raise Refusal(msg) from None

    return compute


def _number(value: object) -> Decimal | int:
    match value:
        case bool():
            pass
        case int():
            return value
        case Decimal() if value.is_finite():
            return value
        case float() if (number := Decimal(repr(value))).is_finite():
            return number
    msg = f"needs a finite number, not {type(value).__name__}; put a number operation before it"
    raise Refusal(msg)


def _notation(rule: NumberRule) -> _Notation:
    if rule.locale is None:
        return _Notation(re.escape(rule.decimal or "."), _group(rule.group))
    from babel.core import Locale  # noqa: PLC0415 - heavy, and rarely used

    locale = Locale.parse(rule.locale)
    symbols = locale.number_symbols["latn"]
    last, others = locale.decimal_formats[None].grouping
    return _Notation(
        re.escape(symbols["decimal"]),
        _group(symbols["group"]),
        f"(?:[-\u2212]|{re.escape(symbols['minusSign'])})",
        f"(?:[+]|{re.escape(symbols['plusSign'])})",
        last,
        others,
    )


def _group(symbol: str | None) -> str | None:
    """Return a pattern: a space stands for the unbreakable ones too, as does an apostrophe."""
    if symbol is None:
        return None
    if symbol.isspace():
        return "[ \u00a0\u202f]"
    return "['\u2019]" if symbol in "'\u2019" else re.escape(symbol)
