"""The papers' protocols: each composes the corridor into one question about an explainer."""

DECLARES = ("grid", "localization", "semantic", "synergy", "pixel")
