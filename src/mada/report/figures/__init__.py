"""Figures. Each file has a figure's data, how it is read from runs, and how matplotlib draws it for print and page.

Shares and accuracies are from 0 to 1; errors are standard errors over seeds, None with a single seed. `run` names the
run that something belongs to, and is empty where there is only one. Only `writing` and what it imports load matplotlib.
"""

from mada.report.document import Figure

TITLES = {
    "parameters": "Mean answers against trained parameters",
    "tokens": "Right verdicts against generated tokens per question",
    "training": "Training: accuracy of rollouts and on the validation set",
    "flow": "What debating changed: votes from round to round",
    "critics": "Accuracy of critics by how many generators were right",
    "advantages": "Advantages of critics' completions: counterfactual against GRPO",
    "pairs": "All with all, verdict against verdict: differences in points",
}
"""All figures in the order in which they are written."""


def figure(name: str) -> Figure:
    """Return the place of a figure in a section."""
    return Figure(name, TITLES[name])
