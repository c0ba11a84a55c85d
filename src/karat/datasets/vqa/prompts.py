"""How a question is put (fsyn2026 A.1): as it is, or with a directive that keeps the answer to a letter.

The directive is no part of the question: it is a phrase of role "instruction", whose words are never perturbed.
"""

from __future__ import annotations

from typing import Literal

from karat.kernel.sample import Phrase

Directive = Literal["letter", "answer", "none"]
DIRECTIVES: dict[Directive, str] = {
    "letter": "\nAnswer directly with only the letter inside parentheses, and nothing else. \n",
    "answer": "\nAnswer:",  # for LLaVA-1.5
    "none": "",
}
INSTRUCTION = "instruction"


def put(question: str, directive: Directive) -> tuple[str, tuple[Phrase, ...]]:
    """The text for the model and the phrase that marks its directive."""
    question, added = question.strip(), DIRECTIVES[directive]
    whole = question + added
    return whole, (Phrase((len(question), len(whole)), INSTRUCTION),) if added else ()
