"""The nouns: samples, models, attributions, rows, specs, cells; names, identity and errors. No torch here."""
