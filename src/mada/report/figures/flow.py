"""What became of right and wrong votes from round to round: the ledger's transitions."""

from collections.abc import Sequence

from mada.evaluation.ledger import Transitions
from mada.report.figures.data import Flow, FlowFigure, FlowStep
from mada.report.figures.debates import debate_ledgers
from mada.report.reading import Source


def flow_figure(sources: Sequence[Source]) -> FlowFigure | None:
    """Return the flow of votes of every shown debate; None where nobody debated."""
    flows = tuple(
        Flow(debate.run, debate.title, steps=tuple(_step(step) for step in debate.ledger.votes))
        for debate in debate_ledgers(sources)
    )
    return FlowFigure(flows) if flows else None


def _step(transitions: Transitions) -> FlowStep:
    return FlowStep(
        right_to_right=transitions.right_to_right,
        right_to_wrong=transitions.right_to_wrong,
        wrong_to_right=transitions.wrong_to_right,
        wrong_to_wrong=transitions.wrong_to_wrong,
    )
