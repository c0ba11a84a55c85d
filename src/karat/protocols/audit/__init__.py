"""Protocol `audit`: can the metric itself be trusted? Every metric, on explanations and models of known truth."""

from karat.protocols.audit.protocol import Audit

__all__ = ["Audit"]
