"""Find code by pattern and rewrite it as text splices; everything outside a splice survives byte for byte."""

from vlmopt.rewrite.compose import compose
from vlmopt.rewrite.edits import Action, Candidate, Edit, EditResult, Outcome, Probe, Shape, Splice
from vlmopt.rewrite.errors import Conflict, PatternError, SyntaxErrorInSource
from vlmopt.rewrite.module import Module, rewrite
from vlmopt.rewrite.shape import check

__all__ = [
    "Action",
    "Candidate",
    "Conflict",
    "Edit",
    "EditResult",
    "Module",
    "Outcome",
    "PatternError",
    "Probe",
    "Shape",
    "Splice",
    "SyntaxErrorInSource",
    "check",
    "compose",
    "rewrite",
]
