"""Words that stand for something: booleans and options. An unknown one is never guessed."""

from decimal import Decimal

from connectors.fields.errors import Refusal
from connectors.fields.steps import Convert
from connectors.fields.texts import to_text
from models.mapping import OptionMap
from models.operation_rules import BooleanRule, OptionRule


def read_boolean(rule: BooleanRule) -> Convert:
    """Return what reads a word, in any case; a boolean passes unchanged."""
    words = {word.casefold(): True for word in rule.true_words}
    words |= {word.casefold(): False for word in rule.false_words}

    def read(value: object) -> bool:
        if isinstance(value, bool):
            return value
        found = words.get(_code(value).strip().casefold())
        if found is None:
            msg = "is none of the words for true and false; add it to trueWords or falseWords"
            raise Refusal(msg)
        return found

    return read


def translate(rule: OptionRule, table: OptionMap) -> Convert:
    """Return what turns codes into labels, or labels into codes."""
    known, blank = _directed(rule, table)

    def look_up(value: object) -> str | int | None:
        text = table.folded(_code(value))
        if text in known:
            return known[text]
        if table.knows_blank and not text.strip():
            return blank
        what = "a blank" if not text.strip() else "the value"
        msg = f"option map {rule.map!r} has no {rule.to} for {what}; add it to the map"
        raise Refusal(msg)

    return look_up


def _directed(rule: OptionRule, table: OptionMap) -> tuple[dict[str, str | int], str | int | None]:
    """Return the table in the wanted direction, and what a blank becomes."""
    if rule.to == "label":
        labels = {table.folded(code): label for code, label in table.values.items()}
        return dict(labels), table.blank
    codes: dict[str, str | int] = {
        table.folded(label): int(code) if table.codes == "integer" else code
        for code, label in table.values.items()
    }
    return codes, None if table.blank is None else codes[table.folded(table.blank)]


def _code(value: object) -> str:
    """Return an option as text; databases give whole numbers as decimals or floats too."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value():
        return format(value, ".0f")
    return to_text(value)
