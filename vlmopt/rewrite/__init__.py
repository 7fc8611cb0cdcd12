"""Find code by pattern and rewrite it as text splices; everything outside a splice survives byte for byte."""

from vlmopt.rewrite.edits import Action, Candidate, Edit, EditResult, Outcome, Probe, Shape, Splice
from vlmopt.rewrite.errors import Conflict, PatternError, SyntaxErrorInSource

__all__ = [
    "Action",
    "Candidate",
    "Conflict",
    "Edit",
    "EditResult",
    "Outcome",
    "PatternError",
    "Probe",
    "Shape",
    "Splice",
    "SyntaxErrorInSource",
]
