"""Explainers by family. Each is a frozen dataclass called with a `probe.Session`; modules import no torch at import."""

DECLARES = (
    "control",
    "gradient",
    "cam",
    "attention",
    "relevance",
    "vlm",
    "perturbation",
    "shapley",
    "interaction",
    "modality",
    "control_planted",
    "external",
)
