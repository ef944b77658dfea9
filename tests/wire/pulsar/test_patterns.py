r"""Expressions of topic names: the same names as `re` finds, and never slowly."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.pulsar.patterns import PATTERN_CHARS_MAX, STEPS_KEPT, Pattern, PatternError

PIECES = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\.", r"\w", r"\d", "(a|b)", "(?:ab|)", "(a*b)", "-"])
SIGNS = st.sampled_from(["", "", "", "*", "+", "?", "*?", "{2}", "{0,2}", "{1,}", "{0}"])
ALTERNATIVES = st.lists(st.tuples(PIECES, SIGNS).map("".join), max_size=5).map("".join)
PATTERNS = st.lists(ALTERNATIVES, min_size=1, max_size=2).map("|".join)


@given(PATTERNS, st.text("ab.-9", max_size=8))
def test_the_same_names_as_re(text, name):
    assert Pattern(text).matches(name) == bool(re.fullmatch(text, name))


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        ("public/default/orders-.*", ["public/default/orders-", "public/default/orders-eu"], ["public/default/order"]),
        ("public/default/(eu|us)-[0-9]+", ["public/default/eu-12"], ["public/default/eu-", "public/default/asia-1"]),
        (r"a\.b", ["a.b"], ["axb"]),
        (r"\Qa.b*\Ec", ["a.b*c"], ["axbc"]),
        (r"\Qa.b", ["a.b"], ["a"]),
        ("^a.*b$", ["ab", "axb"], ["abc"]),
        (r"a\$", ["a$"], ["a"]),
        ("[a-c-]+", ["a-c", "-"], ["d"]),
        (r"[\w.]+", ["a.b_9"], ["a-b"]),
        ("(a{2}){2}", ["aaaa"], ["aaa", "aaaaa"]),
        ("a{2,3}", ["aa", "aaa"], ["a", "aaaa"]),
        ("", [""], ["a"]),
        ("grüße|日本", ["grüße", "日本"], ["日"]),
    ],
)
def test_examples(text, yes, no):
    pattern = Pattern(text)
    assert all(pattern.matches(name) for name in yes)
    assert not any(pattern.matches(name) for name in no)


@pytest.mark.parametrize(
    "text",
    [
        "(", ")", "a)", "(a", "[", "[a", "*", "a**", "a{2}{3}", "a{3,2}", "+", "\\", "(?=a)", "(?!a)", "(?<n>a)",
        r"\1", r"\b", "a^b", "a$b", "[b-a]", r"[a-\d]", "[[:alpha:]]", "[a&&b]", r"[\W]", "[]a]", "[^]",
        "x" * (PATTERN_CHARS_MAX + 1), "((((((((((((((((((((((a))))))))))))))))))))))", "(a{100}){100}",
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused(text):
    with pytest.raises(PatternError):
        Pattern(text)


@pytest.mark.parametrize("text", ["(a*)*b", "(a|a)*b", "(a+)+b", "a*a*a*a*a*a*a*a*b", "(a?){50}a{50}", "(.*a){20}"])
def test_no_expression_takes_for_ever(text):
    """With a matcher that goes back and tries again, each of these outlasts the sun."""
    assert not Pattern(text).matches("a" * 1_000 + "c")


def test_what_is_remembered_has_a_bound():
    pattern = Pattern(".*x")
    for number in range(2 * STEPS_KEPT):
        pattern.matches(chr(0x1000 + number))
    assert len(pattern._steps) <= STEPS_KEPT
    assert len(pattern._wanted) <= STEPS_KEPT
