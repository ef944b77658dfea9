"""SQL filters: what each operator means, what is refused, and random trees against another evaluator."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.rocketmq.sql92 import DEPTH_MAX, PARTS_MAX, SqlError, compiled
from penstock.wire.rocketmq.sqltokens import CHARS_MAX

MESSAGE = {
    "five": "5",
    "half": "0.5",
    "name": "O'Hara",
    "yes": "true",
    "no": "no",
    "empty_not": "x",
    "$a_1": "1",
    "big": "3000000000",
}

TRUE = """
five = 5 | five <> 6 | five > 4 | five >= 5 | five < 6 | five <= 5 | 5 = five | 4 < five | five = 5.0 | five = 5L
five > -1 | five = - -5 | five = +5 | half = 0.5 | half = .5 | half < 1. | half > 1e-3 | half = 5E-1 | big > 2999999999
five BETWEEN 5 AND 5 | five BETWEEN 1 AND 9 | five NOT BETWEEN 6 AND 9 | five BETWEEN -3 AND 9.5 | five > half
name = 'O''Hara' | name <> 'x' | name IN ('x', 'O''Hara') | name NOT IN ('x') | yes = TRUE | no = FALSE | no <> TRUE
missing IS NULL | five IS NOT NULL | NOT (five = 6) | (five = 5) | ((five = 5)) | five = 5 = TRUE | missing = gone
name CONTAINS 'Ha' | name STARTSWITH 'O''' | name ENDSWITH 'ra' | name NOT CONTAINS 'z' | name NOT STARTSWITH 'z'
name NOT ENDSWITH 'z' | TRUE | NOT FALSE | FALSE OR TRUE | TRUE AND TRUE | five = 6 OR five = 5 AND half = 0.5
missing = 1 OR five = 5 | $a_1 = 1 | five=5 and not(five=6) or FALSE | five Between 1 aNd 9 | /* so */ five = 5
five = 5 /* ** */ | NOT five = TRUE | NOT missing = gone | five <> missing
"""

NOT_TRUE = """
five = 6 | five <> 5 | five > 5 | five < 5 | five BETWEEN 6 AND 9 | five NOT BETWEEN 1 AND 9 | name IN ('x')
name NOT IN ('O''Hara') | missing = 1 | missing <> 1 | NOT (missing = 1) | missing > 1 | missing IN ('x')
missing NOT IN ('x') | missing BETWEEN 1 AND 2 | missing NOT BETWEEN 1 AND 2 | missing IS NOT NULL | five IS NULL
missing CONTAINS 'x' | missing NOT CONTAINS 'x' | name CONTAINS '' | name NOT CONTAINS '' | NULL | NOT NULL | FALSE
NULL AND TRUE | NULL OR FALSE | five | yes | name > 1 | name = 1 | NOT (name = 1) | name > 1 OR five = 5
five > name | TRUE = yes | - name = 1 | half > 0 | half = 0 | big > 1 | NOT five = 5 | yes = 1 | 5 CONTAINS '5'
TRUE AND missing = 1
"""  # a number is read as the literal beside it: "0.5" and 3000000000 are no 32-bit integers, and then nothing matches

REFUSED = """
= | five = | five 5 | (five = 5 | five = 5) | five = 'x | five = "x" | five == 5 | five != 5 | five LIKE 'x%'
five = NULL | NULL = five | five IN () | five IN (5) | 5 IN ('5') | five IN ('a' 'b') | five BETWEEN 9 AND 1
five BETWEEN 'a' AND 'b' | five BETWEEN NULL AND 5 | five > 'x' | five > TRUE | TRUE > five | (five = 5) > 1 | 5 | 'x'
-five | 5 AND TRUE | TRUE = 5 | 9223372036854775808 = five | 1e999 = five | 007 = five | 5.0L = five | five ; | a.b = 5
five + 1 = 6 | five * 2 | NOT | AND | five AND | five IS | five IS 5 | five NOT 5 | five CONTAINS five | five = 5 -- x
five = 5 /* | é = 1 | five = 5 5
"""


WORDS = """a b 1 2.5 'x' 'a''b' ( ) = <> > >= < <= , + - AND OR NOT IN BETWEEN IS NULL TRUE CONTAINS""".split()  # noqa: SIM905


def each(table):
    return [
        pytest.param(item.strip(), id=item.strip())
        for line in table.split("\n")
        for item in line.split(" | ")
        if item.strip()
    ]


@pytest.mark.parametrize("expression", each(TRUE))
def test_true(expression):
    assert compiled(expression)(MESSAGE) is True


@pytest.mark.parametrize("expression", each(NOT_TRUE))
def test_not_true(expression):
    assert compiled(expression)(MESSAGE) is False


@pytest.mark.parametrize("expression", ["", "  ", *each(REFUSED)])
def test_refused(expression):
    with pytest.raises(SqlError):
        compiled(expression)


def test_a_line_comment_ends_with_its_line():
    assert compiled("-- first\nfive = 5 -- and\r\nAND half = 0.5")(MESSAGE)


def test_what_is_wrong_is_said_with_its_place():
    with pytest.raises(SqlError, match=r"at character 10: 'LIKE' does not belong behind a complete expression"):
        compiled("five = 5 LIKE 'x'")


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 5_000,
        "NOT " * 2_400 + "TRUE",
        "- " * 4_000 + "1 = 1",
        "-" * 9_999,
        "a" + " = TRUE" * 1_000,
        "(" * 40 + "a" + " = TRUE = TRUE)" * 40,
        "a" + " CONTAINS 'x'" * 700,
        " OR ".join(["a = 1"] * 1_000),
        "a = '" + "x" * CHARS_MAX + "'",
        "0" * 9_999,
        "1e" * 4_999,
        "'" * 9_999,
        "/*" * 4_999,
        "-- \n" * 2_499,
        "a IN (" + "'x'," * 2_000,
    ],
    ids=lambda expression: f"{expression[:12]}...",
)
def test_too_much_of_anything_is_refused(expression):
    with pytest.raises(SqlError):
        compiled(expression)


def test_what_is_allowed_can_be_evaluated():
    """The deepest and the longest expressions that are taken do not end in a recursion error."""
    deep = "NOT " * (DEPTH_MAX - 2) + "TRUE"
    long = " OR ".join(["a = 1"] * (PARTS_MAX // 3))
    chain = "(" * 20 + "a" + " = TRUE = TRUE)" * 20
    for expression in (deep, long, chain):
        assert compiled(expression)({"a": "1"}) in (True, False)


@given(
    st.one_of(
        st.text(),
        st.text(" ()'<>=-+,.0123456789eEaANDORTIS/*\n$_", max_size=60),
        st.binary().map(lambda data: data.decode("latin-1")),
    )
)
def test_no_text_raises_anything_but_the_one_error(expression):
    with contextlib.suppress(SqlError):
        compiled(expression)({"a": "1", "A": "x"})


@given(
    st.lists(
        st.sampled_from(WORDS),
        max_size=20,
    )
)
def test_no_words_raise_anything_but_the_one_error(words):
    with contextlib.suppress(SqlError):
        compiled(" ".join(words))({"a": "1", "b": "x"})


# --- random trees -----------------------------------------------------------------------------------------------------
# A tree is a tuple: the operator and its parts. It is printed, compiled and compared with what `value_of` says.

NAMES = st.sampled_from(["a", "b", "c"])
NUMBERS = st.one_of(st.integers(-9, 9), st.sampled_from([-0.5, 1.5, 2.0]))
TEXTS = st.sampled_from(["x", "it's", "1", "2.5", "true", "xyz"])
LEAVES = st.one_of(
    st.tuples(st.just("compare"), st.sampled_from(["=", "<>", ">", ">=", "<", "<="]), NAMES, NUMBERS),
    st.tuples(st.just("compare"), st.sampled_from(["=", "<>"]), NAMES, TEXTS),
    st.tuples(st.just("between"), st.booleans(), NAMES, NUMBERS, NUMBERS).filter(lambda tree: tree[3] <= tree[4]),
    st.tuples(st.just("in"), st.booleans(), NAMES, st.lists(TEXTS, min_size=1, max_size=6)),
    st.tuples(st.just("null"), st.booleans(), NAMES),
    st.tuples(st.just("search"), st.sampled_from(["CONTAINS", "STARTSWITH", "ENDSWITH"]), st.booleans(), NAMES, TEXTS),
    st.sampled_from([("literal", True), ("literal", False), ("literal", None)]),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner),
        st.tuples(st.sampled_from(["AND", "OR"]), st.lists(inner, min_size=2, max_size=4)),
    ),
    max_leaves=12,
)
MESSAGES = st.dictionaries(NAMES, st.one_of(TEXTS, st.integers(-9, 9).map(str), st.just("-0.5")))


def literal(value):
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def printed(tree):
    match tree:
        case ("compare", sign, name, value):
            return f"{name} {sign} {literal(value)}"
        case ("between", negate, name, low, high):
            return f"{name} {'NOT ' * negate}BETWEEN {low} AND {high}"
        case ("in", negate, name, texts):
            return f"{name} {'NOT ' * negate}IN ({', '.join(map(literal, texts))})"
        case ("null", negate, name):
            return f"{name} IS {'NOT ' * negate}NULL"
        case ("search", word, negate, name, text):
            return f"{name} {'NOT ' * negate}{word} {literal(text)}"
        case ("literal", value):
            return {True: "TRUE", False: "FALSE", None: "NULL"}[value]
        case ("not", inner):
            return f"NOT ({printed(inner)})"
        case (word, parts):
            return "(" + f" {word} ".join(map(printed, parts)) + ")"


class Incomparable(Exception):
    pass


def read_as(text, number):
    try:
        return int(text) if isinstance(number, int) else float(text)
    except ValueError:
        raise Incomparable from None


def value_of(tree, message):
    """True, False, or None for unknown."""
    match tree:
        case ("compare", sign, name, wanted):
            if name not in message:
                return None
            have = message[name] if isinstance(wanted, str) else read_as(message[name], wanted)
            signs = {"=": have == wanted, "<>": have != wanted}
            if not isinstance(wanted, str):
                signs |= {">": have > wanted, ">=": have >= wanted, "<": have < wanted, "<=": have <= wanted}
            return signs[sign]
        case ("between", False, name, low, high):
            return value_of(("AND", [("compare", ">=", name, low), ("compare", "<=", name, high)]), message)
        case ("between", True, name, low, high):
            return value_of(("OR", [("compare", "<", name, low), ("compare", ">", name, high)]), message)
        case ("in", negate, name, texts):
            return (message[name] in texts) != negate if name in message else None
        case ("null", negate, name):
            return (name in message) == negate
        case ("search", word, negate, name, text):
            have = message.get(name)
            ways = {"CONTAINS": lambda: text in have, "STARTSWITH": lambda: have.startswith(text)}
            return have is not None and ways.get(word, lambda: have.endswith(text))() != negate
        case ("literal", value):
            return value
        case ("not", inner):
            value = value_of(inner, message)
            return None if value is None else not value
        case (word, parts):
            return both_or_either(word, parts, message)


def both_or_either(word, parts, message):
    seen = []
    for part in parts:
        seen.append(value_of(part, message))
        if seen[-1] is (word == "OR"):
            return seen[-1]
    return None if None in seen else word == "AND"


@given(TREES, MESSAGES)
def test_a_random_tree_means_what_it_says(tree, message):
    try:
        expected = value_of(tree, message) is True
    except Incomparable:
        expected = False
    assert compiled(printed(tree))(message) is expected
