"""The papers' protocols: each composes the corridor into one question about an explainer."""

DECLARES = ("compass", "grid", "localization", "semantic", "synergy", "pixel", "audit", "lineup")
