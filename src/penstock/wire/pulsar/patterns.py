r"""Regular expressions of topic names, matched in time that grows with the name alone, whatever the expression.

A client may send any expression, so nothing here goes back and tries again: all the ways through an expression are
followed at once. It becomes an automaton whose states are the characters that it asks for: `first` can begin a match,
`last` can end one, and each has those that can follow it. A set of states is an integer with a bit for each.

    orders-(eu|us)[0-9]+      first: o      last: [0-9]      behind "-": e, u      behind [0-9]: [0-9]

Known are literals, `.`, classes, groups, `|`, `* + ? {m,n}` and \d \w \s \Q...\E. What looks ahead or back is not, as
in RE2, which Pulsar's broker uses. A match is one of the whole name.
"""

import re
import string
from typing import NamedTuple

PATTERN_CHARS_MAX = 256
STATES_MAX = 500
DEPTH_MAX = 20  # of groups in groups
STEPS_KEPT = 4_096

_REPEAT = re.compile(r"\{([0-9]{1,3})(?:(,)([0-9]{1,3})?)?\}")
_SPECIAL = frozenset("|)*+?{")
_ANY = ((0, 0x10FFFF),)
_DIGITS = ((48, 57),)
_WORD = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE = ((9, 13), (32, 32))
_KINDS = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}

Ranges = tuple[tuple[int, int], ...]


class PatternError(ValueError):
    """This is no expression, or one that is not understood here."""


class Characters(NamedTuple):
    """What a state asks for."""

    ranges: Ranges
    others: bool = False  # all but those

    def has(self, code: int) -> bool:
        return any(low <= code <= high for low, high in self.ranges) != self.others


class Part(NamedTuple):
    """A part of an expression: whether it may be nothing, and the states that it begins and ends with."""

    empty: bool
    first: int
    last: int


NOTHING = Part(True, 0, 0)


class Pattern:
    """An expression, ready to be matched."""

    def __init__(self, text: str) -> None:
        if len(text) > PATTERN_CHARS_MAX:
            raise PatternError(f"it has {len(text)} characters, at most {PATTERN_CHARS_MAX} are taken")
        parser = _Parser(text.removeprefix("^").removesuffix("$") if not text.endswith("\\$") else text)
        self._whole = parser.whole()
        self._states, self._follow = parser.states, parser.follow
        self._wanted: dict[str, int] = {}  # by character: the states that ask for it
        self._steps: dict[tuple[int, str], tuple[int, int]] = {}

    def matches(self, name: str) -> bool:
        possible, reached, steps = self._whole.first, 0, self._steps
        for character in name:
            step = steps.get((possible, character)) or self._step(possible, character)
            reached, possible = step
            if not reached:
                return False
        return bool(reached & self._whole.last) if name else self._whole.empty

    def _step(self, possible: int, character: str) -> tuple[int, int]:
        """Of the states that are possible, those that ask for this character; and those that can follow them."""
        reached = possible & self._asking(character)
        behind, left = 0, reached
        while left:
            lowest = left & -left
            behind |= self._follow[lowest.bit_length() - 1]
            left ^= lowest
        if len(self._steps) >= STEPS_KEPT:
            self._steps.clear()
        self._steps[possible, character] = reached, behind
        return reached, behind

    def _asking(self, character: str) -> int:
        found = self._wanted.get(character)
        if found is None:
            code = ord(character)
            found = sum(1 << number for number, state in enumerate(self._states) if state.has(code))
            if len(self._wanted) >= STEPS_KEPT:
                self._wanted.clear()
            self._wanted[character] = found
        return found


class _Parser:
    def __init__(self, text: str) -> None:
        self._text, self._at, self._depth = text, 0, 0
        self.states: list[Characters] = []
        self.follow: list[int] = []

    def whole(self) -> Part:
        part = self._either()
        if self._at < len(self._text):
            raise PatternError(f"a {self._text[self._at]!r} too many at character {self._at}")
        return part

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self) -> str:
        taken = self._peek()
        if not taken:
            raise PatternError("it ends too early")
        self._at += 1
        return taken

    def _either(self) -> Part:
        part = self._sequence()
        while self._peek() == "|":
            self._at += 1
            other = self._sequence()
            part = Part(part.empty or other.empty, part.first | other.first, part.last | other.last)
        return part

    def _sequence(self) -> Part:
        part = NOTHING
        while self._peek() not in ("", "|", ")"):
            part = self._joined(part, self._repeated())
        return part

    def _joined(self, one: Part, other: Part) -> Part:
        """One behind the other."""
        self._link(one.last, other.first)
        first = one.first | other.first if one.empty else one.first
        last = one.last | other.last if other.empty else other.last
        return Part(one.empty and other.empty, first, last)

    def _link(self, ends: int, begins: int) -> None:
        for number in range(len(self.states)):
            if ends >> number & 1:
                self.follow[number] |= begins

    def _repeated(self) -> Part:
        start = self._at
        part = self._atom()
        behind = self._at
        sign = self._peek()
        if sign in ("*", "+", "?") and sign:
            self._at += 1
            part = self._again(part, sign)
        elif found := _REPEAT.match(self._text, self._at):
            part = self._times(part, start, behind, found)
        else:
            return part
        if self._peek() == "?":  # as little as possible: the same names match
            self._at += 1
        if self._peek() in ("*", "+", "{") and self._peek():
            raise PatternError(f"a repetition of a repetition at character {self._at}")
        return part

    def _again(self, part: Part, sign: str) -> Part:
        if sign != "?":
            self._link(part.last, part.first)
        return part if sign == "+" else Part(True, part.first, part.last)

    def _times(self, part: Part, start: int, behind: int, found: "re.Match[str]") -> Part:
        """{m}, {m,} and {m,n}: the part is written as often as that."""
        least = int(found[1])
        most = least if not found[2] else int(found[3]) if found[3] else None
        if most is not None and most < least:
            raise PatternError(f"{found[0]} is no number of times")
        whole = NOTHING
        for number in range(max(least, most or 0, 1)):
            one = part if number == 0 else self._copy(start, behind)
            whole = self._joined(whole, one if number < least else Part(True, one.first, one.last))
        self._at = found.end()
        if most is None:
            endless = self._again(self._copy(start, behind), "*")
            self._at = found.end()
            return self._joined(whole, endless)
        return whole if most else NOTHING

    def _copy(self, start: int, behind: int) -> Part:
        self._at = start
        part = self._atom()
        if self._at != behind:
            raise PatternError("it cannot be repeated")
        return part

    def _atom(self) -> Part:
        character = self._take()
        if character == "(":
            return self._group()
        if character == "[":
            return self._state(self._class())
        if character == "\\":
            return self._escaped()
        if character == ".":
            return self._state(Characters(_ANY))
        if character in _SPECIAL or character in "^$":
            raise PatternError(f"a {character!r} that is not understood at character {self._at - 1}")
        return self._state(_only(character))

    def _state(self, characters: Characters) -> Part:
        if len(self.states) >= STATES_MAX:
            raise PatternError(f"it asks for more than {STATES_MAX} characters")
        bit = 1 << len(self.states)
        self.states.append(characters)
        self.follow.append(0)
        return Part(False, bit, bit)

    def _group(self) -> Part:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise PatternError(f"groups in groups, more than {DEPTH_MAX} deep")
        if self._peek() == "?":
            if self._text[self._at : self._at + 2] != "?:":
                raise PatternError(f"a group of a kind that is not understood at character {self._at}")
            self._at += 2
        part = self._either()
        if self._take() != ")":
            raise PatternError("a group is not closed")
        self._depth -= 1
        return part

    def _escaped(self) -> Part:
        character = self._take()
        if character == "Q":
            return self._quoted()
        return self._state(_escape(character))

    def _quoted(self) -> Part:
        quoted, _, _ = self._text[self._at :].partition("\\E")
        self._at = min(self._at + len(quoted) + 2, len(self._text))
        part = NOTHING
        for character in quoted:
            part = self._joined(part, self._state(_only(character)))
        return part

    def _class(self) -> Characters:
        others = self._peek() == "^"
        self._at += others
        ranges: list[tuple[int, int]] = []
        while (character := self._take()) != "]":
            if character in "[&" and self._peek() in "&:[":
                raise PatternError(f"a class that is not understood at character {self._at}")
            one = _escape(self._take()) if character == "\\" else _only(character)
            if one.others:
                raise PatternError("what is not of a kind cannot stand in a class")
            if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
                one = self._range(one)
            ranges += one.ranges
        if not ranges:
            raise PatternError("a class of nothing")
        return Characters(tuple(ranges), others)

    def _range(self, low: Characters) -> Characters:
        self._at += 1
        character = self._take()
        high = _escape(self._take()) if character == "\\" else _only(character)
        (begin, end), (last, until) = low.ranges[0], high.ranges[0]
        if len(low.ranges) + len(high.ranges) != 2 or begin != end or last != until or begin > last:
            raise PatternError(f"a range that is none before character {self._at}")
        return Characters(((begin, last),))


def _only(character: str) -> Characters:
    return Characters(((ord(character), ord(character)),))


def _escape(character: str) -> Characters:
    if character in _KINDS:
        return Characters(_KINDS[character])
    if character.lower() in _KINDS:
        return Characters(_KINDS[character.lower()], others=True)
    if character in _CONTROLS:
        return _only(_CONTROLS[character])
    if character in string.ascii_letters + string.digits:
        raise PatternError(f"\\{character} is not understood")
    return _only(character)
