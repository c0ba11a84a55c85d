"""What a model of a known mechanism says to a grid question: by that it can be seen to stray from its mechanism."""

from __future__ import annotations

from collections.abc import Sequence

from karat.kernel.sample import Sample


def mechanism_answer(sample: Sample, mechanism: str | None) -> str | None:
    """The answer of a model that reasons, or of one that matches words; None for other mechanisms and other data."""
    from karat.datasets.grid.sample import GridSample
    from karat.datasets.grid.scenes import answers

    if mechanism == "reasons":
        return sample.answer
    if mechanism == "matches_words" and isinstance(sample, GridSample):
        batch = sample.proof.source
        return answers(batch.world)[int(batch.heuristics["bag_of_words"][sample.proof.row])]
    return None


def strays(samples: Sequence[Sample], said: Sequence[str], mechanism: str | None) -> dict[int, str]:
    """Samples on which a model did not answer as its mechanism does, and why its own truth does not hold there."""
    found = {}
    for i, (sample, answer) in enumerate(zip(samples, said, strict=True)):
        wanted = mechanism_answer(sample, mechanism)
        if wanted is not None and answer != wanted:
            found[i] = f"the model strayed from its mechanism: it said {answer}, not {wanted}"
    return found
