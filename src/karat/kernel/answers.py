"""What a model said, read as one of the answers that a question allows (fsyn2026 A.1)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

LETTERS = "ABCDEFGHIJ"


@dataclass(frozen=True)
class Reading:
    """`answer` is the choice; `target` is what was said up to its end, which is what explanations are asked about.

    fsyn2026 explains the choice's own token in the context of what was said before it; the target holds both, so its
    probability is that of saying "(" and then "B", not that of "B" after "(".
    """

    answer: str
    target: str


def read_answer(said: str, choices: Sequence[str]) -> Reading | None:
    """The choice that a text amounts to, or None where it names none.

    Letters are looked for in this order: "(B)", a letter that opens the text, "answer is B" or "answer: B", a letter
    that stands alone. Words (yes, no) count where they first stand as a whole word. Case matters for letters only.

    >>> read_answer("Yes, there is a dog.", ("yes", "no"))
    Reading(answer='yes', target='Yes')
    >>> read_answer("The answer is (B) 3", ("A", "B"))
    Reading(answer='B', target='The answer is (B')
    >>> read_answer("I cannot tell", ("yes", "no")) is None
    True
    """
    letters = all(len(choice) == 1 and choice in LETTERS for choice in choices)
    for pattern in _letters("".join(choices)) if letters else (_words(choices),):
        found = pattern.search(said)
        if found:
            word = found.group(1)
            answer = next(choice for choice in choices if choice.lower() == word.lower())
            return Reading(answer, said[: found.end(1)].lstrip())
    return None


def _letters(letters: str) -> tuple[re.Pattern[str], ...]:
    return (
        re.compile(rf"\(([{letters}])\)"),
        # "A." or "B: because", but not the article of "A dog"
        re.compile(rf"^\s*\(?([{letters}])(?=\s*$|\s*[).:,;\n])"),
        re.compile(rf"(?i:\banswer(?:\s+is)?\s*:?\s*)\(?([{letters}])\b(?!\s+[a-z])"),
        re.compile(rf"(?<![\w'])([{letters}])(?![\w'])(?!\s+[a-z])"),
    )


def _words(choices: Sequence[str]) -> re.Pattern[str]:
    longest_first = sorted(choices, key=len, reverse=True)
    return re.compile(rf"(?i:(?<!\w)({'|'.join(map(re.escape, longest_first))})(?!\w))")
