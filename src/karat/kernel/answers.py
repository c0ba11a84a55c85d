"""What a model said, read as one of the answers that a question allows (fsyn2026 A.1). Never a guess: a text that
names none of them, or more than one, is a `Failure` with its reason.

A choice may be mentioned several times. Mentions are weighed by how they stand: a final answer ("Final answer: B",
"<answer>B</answer>") before a declared one ("the answer is B", "B is correct", "I would say no"), before one that opens
the text or has a line of its own ("B. three cups", "No, there is none"), before one that is merely named. What is ruled
out ("not (A)", "A is wrong"), doubted or asked ("if it is A", "A?") does not count. Choices that are put side by side
("A or B", "yes and no") weigh the same. If the heaviest mentions agree, that is the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from karat.kernel.row import Failure
from karat.kernel.typing import Span

LETTERS = "ABCDEFGHIJ"
_NAMED, _OPENING, _DECLARED, _FINAL = range(4)
_NEAR = 240  # characters before and after a mention that are looked at


@dataclass(frozen=True)
class Reading:
    """`answer` is the choice, `span` the characters of what was said that name it: the "B" of "(B)"."""

    answer: str
    span: Span


@dataclass(frozen=True)
class _Mention:
    """`strong`: it stands as a choice does, in brackets or after "option", and not as a word of a sentence might."""

    choice: str
    span: Span
    weight: int = _NAMED
    strong: bool = False
    counts: bool = True


def read_answer(text: str, choices: Sequence[str]) -> Reading | Failure:
    """The choice that a text amounts to, and where it is named; or why it is none.

    Args:
        text: What a model answered.
        choices: The answers that count: letters ("A", "B", ...), or words ("yes", "no"; "left", ...; "1", "2", ...).
            Case does not matter, but a small letter by itself is an article.

    >>> read_answer("Yes, there is a dog.", ("yes", "no"))
    Reading(answer='yes', span=(0, 3))
    >>> read_answer("The answer is (B) 3", ("A", "B"))
    Reading(answer='B', span=(15, 16))
    >>> read_answer("A or B", ("A", "B"))
    Failure(reason="answer: 'A or B' names A and B")
    """
    letters = all(len(choice) == 1 and choice in LETTERS for choice in choices)
    mentions = _joined(text, list(_letters(text, choices) if letters else _words(text, choices)))
    counting = [mention for mention in mentions if mention.counts]
    listed, quoted = ", ".join(choices), f"answer: {text[:80]!r}"
    if not counting:
        ruled_out = " and ".join(dict.fromkeys(mention.choice for mention in mentions if mention.choice in choices))
        more = f"; it only rules out or doubts {ruled_out}" if ruled_out else ""
        return Failure(f"{quoted} names none of {listed}{more}")
    heaviest = max(mention.weight for mention in counting)
    best = [mention for mention in counting if mention.weight == heaviest]
    if heaviest == _OPENING:  # "(A) is red and (B) is blue" opens with a choice that it does not make
        best += [mention for mention in counting if mention.strong]
    named = list(dict.fromkeys(mention.choice for mention in best))
    if len(named) > 1:
        return Failure(f"{quoted} names {', '.join(named[:-1])} and {named[-1]}")
    if named[0] not in choices:
        return Failure(f"{quoted} names {named[0]}, which is none of {listed}")
    return Reading(named[0], best[0].span)


_OPEN, _CLOSE = r"[(\[{<*_`\"'“‘$]", r"[)\]}>*_`\"'”’$]"
_BEFORE = rf"(?:{_OPEN}\s*)*\Z"  # up to the mention, brackets and emphasis left aside
_AFTER = rf"^(?:\s*{_CLOSE})*"
_FILL = (
    r"(?:\s*(?:(?:most|very)\s+)?(?:likely|clearly|probably|definitely|obviously|simply|actually|therefore|thus|then|"
    r"still|indeed|just|either|both|maybe|perhaps|possibly|only|the|an?|option|choice|letter|number|answer)\b:?)*\s*"
)
_IS = r"(?:\bis\b|\bare\b|\bbe\b|\bwas\b|'s\b|’s\b|[:=–—→]|->|-)"
_WORD = r"[\w'’-]+"
_NOT = r"(?!(?:not|never|nor|neither|wrong|incorrect|false)\b)"
_NOUNS = r"(?:answer|ans|choice|option|letter|response|solution|selection|pick|guess|verdict|conclusion)"
_DECLARES = tuple(
    re.compile(pattern + _FILL + _BEFORE, re.IGNORECASE)
    for pattern in (
        rf"\b(?:{_NOUNS}|correct|right|best)\b(?:\s+{_NOT}{_WORD}){{0,6}}?{_CLOSE}*\s*{_IS}{_CLOSE}*",
        r"\b(?:answer|ans)\b\.?",
        r"\bI(?:['’](?:d|ll)|\s+(?:would|will|must|can|have\s+to|should))?\s+"
        r"(?:choose|pick|select|say|go\s+(?:with|for)|guess|think|believe|vote\s+for|opt\s+for|answer)\b",
        r"\b(?:choose|select|choosing|selecting|picking)\b",
        r"\b(?:it|this|that|he|she|they|there)(?:['’]s|\s+(?:is|are|was|were)|\s+(?:must|should|would|could|might|may|"
        r"can|will|has\s+to|seems\s+to|appears\s+to)\s+be)\b",
    )
)
_FINALLY = (
    re.compile(rf"\bfinal(?:\s+{_NOT}{_WORD}){{0,3}}?{_CLOSE}*\s*{_IS}{_CLOSE}*{_FILL}{_BEFORE}", re.IGNORECASE),
    re.compile(r"\\boxed\{\s*(?:\\text\w*\{)?\s*\(?$"),
    re.compile(r"<answer>\s*(?:\*\*)?\(?$", re.IGNORECASE),
)
_AFFIRMS = re.compile(
    rf"{_AFTER}\s*(?:(?:is|are|was|seems?|looks?|appears?|must|would|should|has|to|be|indeed|clearly|the|most|only|likely)"
    r"\s+)+(?:\w+\s+){0,1}?(?:answer|correct|right|best|choice|option|true|accurate|appropriate|suitable|one)\b"
    r"(?![^.;\n]*\b(?:wrong|incorrect|false)\b)",
    re.IGNORECASE,
)
_RULED_OUT_BEFORE = re.compile(
    r"(?:\b(?:not|never|neither|nor|without|except|excluding|eliminate[sd]?|eliminating|exclude[sd]?|reject(?:s|ed)?|"
    r"rule[sd]?\s+out|ruling\s+out|rather\s+than|instead\s+of|other\s+than|unlike|over|than)|n['’]t)\s+"
    rf"(?:be\s+)?(?:(?:the|an?|option|choice|letter|answer)\s+)*{_BEFORE}",
    re.IGNORECASE,
)
_RULED_OUT_AFTER = re.compile(
    rf"{_AFTER}\s*(?:(?:is|are|was|were|does|do|did|can|could|would|seems?|looks?|appears?|be|also|clearly|simply|just)\s*)*"
    r"(?:\b(?:not|cannot|never|wrong|incorrect|false|impossible|unlikely|too|out)\b|n['’]t\b)",
    re.IGNORECASE,
)
_DOUBTED = re.compile(
    r"\b(?:not\s+(?:sure|certain|clear)|unsure|uncertain|unclear|unable|(?:do\s+not|don['’]t|cannot|can['’]t|can\s+not)\s+"
    r"(?:know|tell|say|think|believe|determine|decide|answer|be)|doubt|if|whether|unless|hard\s+to\s+(?:say|tell))\b"
    r"(?:(?!\bbut\b|\bhowever\b|\bthough\b)[^.,;:!?\n])*$",
    re.IGNORECASE,
)
_QUESTIONED = re.compile(r"[^.!\n]*\?")  # the sentence goes on to ask
_JOINS = re.compile(
    rf"(?:\s*{_CLOSE})*\s*(?:,?\s*\b(?P<word>and|or|nor)\b(?:\s*/\s*or\b)?|[/&+]|,)\s*(?:(?:an?|the|option|choice|letter)\s+)*"
    rf"(?:{_OPEN}\s*)*",
    re.IGNORECASE,
)
_REASONS = "because|since|as|but|not|due|given|based|for|rather|instead|over"
_LINE_START = re.compile(rf"(?:^|\n)[\s#>•-]*{_BEFORE}")
_ENDS = re.compile(rf"{_AFTER}\s*(?:$|\n|[.):,;!–—-]+(?!\w))")


def _letters(text: str, choices: Sequence[str]) -> Iterator[_Mention]:
    """Mentions of any letter that a question might have had. "I" is a letter only where it is a choice."""
    known = "".join(letter for letter in LETTERS if letter != "I" or letter in choices)
    alone = len(re.findall(r"[^\W_]", text)) == 1
    for match in re.finditer(rf"(?<![^\W_])(?<![^\W_]['’-])([{known}])(?![^\W_]|['’-][^\W_])", text, re.IGNORECASE):
        before, after = _around(text, match.span())
        bracketed = re.search(rf"{_OPEN}\s*\Z", before) and re.match(rf"[.:]?\s*{_CLOSE}", after)
        optional = re.search(r"\b(?:option|choice|letter)s?:?\s+\Z", before, re.IGNORECASE)
        mention = _weighed(text, _Mention(match[1].upper(), match.span(), strong=bool(bracketed or optional)))
        declared, ends = mention.weight >= _DECLARED, bool(_ENDS.match(after))
        starts = bool(_LINE_START.search(before))
        reason = re.match(rf"\s+(?:{_REASONS})\b", after)
        clause = reason or _JOINS.match(after) or re.match(r"\s+(?:is|are|was|seems?|looks?)\b", after)
        if match[1].islower() and not (mention.strong or alone or after.startswith(")") or (declared and ends)):
            continue
        # A bare capital may be the article of "A dog", a vitamin or a note.
        bare = not (mention.strong or ends or clause)
        if bare and (not declared or match[1] == "A"):
            continue
        if not (mention.strong or declared or starts or _leads_to_a_choice(before)):
            continue
        if starts and not declared and (bracketed or ends or reason):
            mention = replace(mention, weight=_OPENING)
        yield replace(mention, strong=mention.strong or bool(re.match(r"[):]", after)))


def _words(text: str, choices: Sequence[str]) -> Iterator[_Mention]:
    """Mentions of the choices as whole words."""
    known = {choice.lower(): choice for choice in choices}
    longest_first = "|".join(re.escape(choice) for choice in sorted(choices, key=len, reverse=True))
    for match in re.finditer(rf"(?<![^\W_])(?<!\d[.,])({longest_first})(?![^\W_]|[.,]\d)", text, re.IGNORECASE):
        before, after = _around(text, match.span())
        if match[1].lower() == "no" and _IDIOMS.match(after):
            continue
        mention = _weighed(text, _Mention(known[match[1].lower()], match.span()))
        determiner = match[1].lower() == "no" and re.match(r"\s+[a-z]", after)
        if determiner and mention.weight == _DECLARED:  # "there is no dog" denies, but declares nothing
            mention = replace(mention, weight=_NAMED)
        opens = _LINE_START.search(before) or re.search(r"[.!]\s+$", before)
        if mention.weight == _NAMED and opens and _ENDS.match(after):  # "No, ..." is as plain as "the answer is no"
            mention = replace(mention, weight=_DECLARED)
        yield mention


# "No idea" is no answer, and neither is "there is no way to tell".
_IDIOMS = re.compile(
    r"\s+(?:ideas?|clue|doubt|question|way|telling|matter|comment|information|context|answer|reason|need|problem|"
    r"more|less|fewer|longer|clear)\b",
    re.IGNORECASE,
)


def _around(text: str, span: Span) -> tuple[str, str]:
    """What stands before and after, as far as it may matter: reading a long text must not take for ever."""
    start, stop = span
    before = text[max(start - _NEAR, 0) : start]
    return before if start <= _NEAR else f"x{before}", text[stop : stop + _NEAR]  # x: here no text begins


def _weighed(text: str, mention: _Mention) -> _Mention:
    """How a mention is declared, and whether it counts, by what stands around it."""
    before, after = _around(text, mention.span)
    weight = mention.weight
    if any(pattern.search(before) for pattern in _FINALLY):
        weight = _FINAL
    elif any(pattern.search(before) for pattern in _DECLARES) or _AFFIRMS.match(after):
        weight = _DECLARED
    ruled_out = _RULED_OUT_BEFORE.search(before) or _RULED_OUT_AFTER.match(after)
    doubted = _DOUBTED.search(before) or _QUESTIONED.match(after)
    return replace(mention, weight=weight, counts=not (ruled_out or doubted))


def _leads_to_a_choice(before: str) -> bool:
    """Whether a bare capital after this text can be a choice: at a start, after a mark, or after a word that leads to
    one."""
    return bool(
        re.search(
            r"(?:^|[^\w\s]|\b(?:is|be|it|so|then|thus|therefore|hence|say|with|and|or|nor|but|either|both|only|than|"
            r"probably|likely|maybe|perhaps|possibly|definitely|clearly|to|for|not|neither|of|between))"
            rf"\s*{_BEFORE}",
            before,
            re.IGNORECASE,
        )
    )


def _joined(text: str, mentions: list[_Mention]) -> list[_Mention]:
    """Mentions side by side ("A or B", "not A or B") weigh what the heaviest of them weighs, and are ruled out
    together."""
    for k in range(1, len(mentions)):
        first, second = mentions[k - 1], mentions[k]
        join = _JOINS.fullmatch(text[first.span[1] : second.span[0]])
        if join is None:
            continue
        if join["word"] and not first.counts:
            mentions[k] = second = replace(second, counts=False)
        if first.counts and second.counts:
            weight = max(first.weight, second.weight)
            mentions[k - 1], mentions[k] = replace(first, weight=weight), replace(second, weight=weight)
    return mentions
