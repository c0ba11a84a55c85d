"""An explainer, a metric and a dataset for Karat."""
