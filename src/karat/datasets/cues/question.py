"""The question: is this a cat? One of its words does not matter and is a cue; it stands at different places."""

from __future__ import annotations

from karat.kernel.sample import Phrase

# With the word that does not matter, and without it.
TEMPLATES = (
    ("{word} answer: is this {noun}?", "answer: is this {noun}?"),
    ("is this {noun}? {word} answer.", "is this {noun}? answer."),
    ("could you {word} say whether this is {noun}?", "could you say whether this is {noun}?"),
    ("say, {word}: is this {noun}?", "say: is this {noun}?"),
)


def ask(template: int, word: str | None, noun: str) -> tuple[str, tuple[Phrase, ...]]:
    """The text and its phrases: role "word" for the cue, "noun" for what is asked about.

    >>> text, phrases = ask(1, "please", "cat")
    >>> text, [(text[slice(*phrase.span)], phrase.role) for phrase in phrases]
    ('Is this a cat? Please answer.', [('cat', 'noun'), ('Please', 'word')])
    """
    article = "an" if noun[:1].lower() in "aeiou" else "a"
    text = TEMPLATES[template][0 if word else 1].replace("{noun}", f"{article} {{noun}}")
    phrases: list[Phrase] = []
    for role, value in (("noun", noun), ("word", word)):
        start = text.find(f"{{{role}}}")
        if value is not None and start >= 0:
            text = text.replace(f"{{{role}}}", value)
            phrases = [_moved(phrase, start, len(value) - len(role) - 2) for phrase in phrases]
            phrases.append(Phrase((start, start + len(value)), role, ("content",) if role == "noun" else ()))
    sentences = text.split("? ")
    text = "? ".join(sentence[:1].upper() + sentence[1:] for sentence in sentences)
    return text, tuple(sorted(phrases, key=lambda phrase: phrase.span))


def _moved(phrase: Phrase, at: int, by: int) -> Phrase:
    """The same phrase after the text at `at` has grown by `by`."""
    if phrase.span[0] < at:
        return phrase
    return Phrase((phrase.span[0] + by, phrase.span[1] + by), phrase.role, phrase.regions)
