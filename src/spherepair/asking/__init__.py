"""Questions worth answering: choose what to ask a person, take the answers, fit models beside it."""

from spherepair.asking.classics import STRATEGIES
from spherepair.asking.interview import Interview
from spherepair.asking.questions import Answer, ChoiceQuestion, GroupQuestion, PairQuestion

__all__ = ["STRATEGIES", "Answer", "ChoiceQuestion", "GroupQuestion", "Interview", "PairQuestion"]
