"""The two ways to question a model: traces and coalitions."""

from __future__ import annotations

from karat.probe.absence import Absence
from karat.probe.batcher import Batcher, BudgetExceeded, Passes, RowQuestion, Rows
from karat.probe.coalitions import ModelGame, Setting
from karat.probe.evaluator import Block, Evaluator, Question, ask
from karat.probe.games import Estimate, Game, group, macro_players
from karat.probe.indices import banzhaf, harsanyi, interaction_index, interaction_matrix, shapley
from karat.probe.request import Request
from karat.probe.session import Cost, Session
from karat.probe.trace import Trace, trace

__all__ = [
    "Absence",
    "Batcher",
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
    "RowQuestion",
    "Rows",
    "Session",
    "Setting",
    "Trace",
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
