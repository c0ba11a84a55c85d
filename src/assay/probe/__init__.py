"""The two ways to question a model: traces and coalitions."""

from __future__ import annotations

from assay.probe.coalitions import ModelGame, Setting
from assay.probe.evaluator import Block, BudgetExceeded, Evaluator, Passes, Question, ask
from assay.probe.games import Estimate, Game, group, macro_players
from assay.probe.indices import banzhaf, harsanyi, interaction_index, interaction_matrix, shapley
from assay.probe.request import Request
from assay.probe.session import Cost, Session
from assay.probe.trace import Trace, trace
from assay.probe.zero import Zero

__all__ = [
    "Block",
    "BudgetExceeded",
    "Cost",
    "Estimate",
    "Evaluator",
    "Game",
    "ModelGame",
    "Passes",
    "Question",
    "Request",
    "Session",
    "Setting",
    "Trace",
    "Zero",
    "ask",
    "banzhaf",
    "group",
    "harsanyi",
    "interaction_index",
    "interaction_matrix",
    "macro_players",
    "shapley",
    "trace",
]
