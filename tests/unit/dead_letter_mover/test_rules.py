"""The rules file: the first rule that matches decides, and each fault is one sentence."""

from pathlib import Path

import pytest

from dead_letter_mover.letters import Letter
from dead_letter_mover.rules import Action, Rules, read_rules
from delivery.errors import ConfigurationError


def a_letter(error: str | None = "column 'a' is too long", job: str = "orders") -> Letter:
    return Letter(1, b"", error=error, job_name=job)


def rules(text: str, folder: Path) -> Rules:
    path = folder / "rules.yaml"
    path.write_text(text, "utf-8")
    return read_rules(path)


@pytest.mark.parametrize(
    ("letter", "action"),
    [
        (a_letter(), Action.RESUBMIT),
        (a_letter(job="customers"), Action.SKIP),
        (a_letter("first line\ntoo long"), Action.RESUBMIT),
        (a_letter("something else"), Action.NONE),
        (a_letter(None), Action.SKIP),
        (a_letter(None, job="customers"), Action.SKIP),
        (a_letter(""), Action.NONE),
    ],
)
def test_the_first_rule_that_matches_decides(
    letter: Letter, action: Action, tmp_path: Path
) -> None:
    text = """
        rules:
          - {pattern: too long, job: customers, action: Skip}
          - {pattern: "too l.ng$", action: Resubmit}
          - {pattern: too long, action: Skip}
          - {unrecorded: true, action: Skip}
    """
    assert rules(text, tmp_path).action_for(letter) is action


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("rules: [{pattern: '(', action: Skip}]", "rules.0.pattern"),
        ("rules: [{pattern: 'a{99999999999999999999}', action: Skip}]", "no regular expression"),
        (f"rules: [{{pattern: '{'(' * 3_000}{')' * 3_000}', action: Skip}}]", "no regular expr"),
        ("rules: [{pattern: 7, action: Skip}]", "write a text in quotes"),
        ("rules: [{pattern: a, action: Remove}]", "'Resubmit', 'None' or 'Skip'"),
        ("rules: [{pattern: a, unrecorded: true, action: Skip}]", "write either `pattern"),
        ("rules: [{action: Skip}]", "write either `pattern"),
        ("rules: [{unrecorded: false, action: Skip}]", "rules.0.unrecorded"),
        ("rules: [{pattern: a}]", "rules.0.action is missing"),
        ("rules: [{patern: a, action: Skip}]", "rules.0.patern is not known here"),
        ("rules: []", "rules"),
        ("", "the file is empty"),
        ("rules: [", "rules.yaml, line 1"),
    ],
)
def test_a_fault_is_named_with_file_and_place(text: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"rules\.yaml") as caught:
        rules(text, tmp_path)
    assert fault in str(caught.value)


def test_a_pattern_that_python_frowns_upon_is_taken_in_silence(tmp_path: Path) -> None:
    assert rules("rules: [{pattern: '[[a]', action: Skip}]", tmp_path).rules[0].pattern


def test_json_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "rules.json"
    path.write_text('{"rules": [{"pattern": "long", "action": "None"}]}', "utf-8")
    assert read_rules(path).action_for(a_letter()) is Action.NONE
