"""Where in the book an experiment is shown: its chapter, and the section of it.

The one list to extend with a paper. An experiment without a section leads to its chapter's top.
"""

from __future__ import annotations

from docutils.nodes import make_id

# By the first words of an experiment's name: the chapter, and by the rest of it the section.
CHAPTERS: dict[str, tuple[str, dict[str, str]]] = {
    "tempered-sigmoids": (
        "02_tempered_sigmoids",
        {
            "figure-3": "Figure 3: accuracy against ε",
            "tutorial": "The baseline in its own settings",
            "table-3-not-private": "Table 3: accuracy with and without privacy",
            "calibrated": "Table 3: accuracy with and without privacy",
            "figure-2": "Figure 2: the family",
            "shuffled": "Poisson sampling and shuffled batches",
            "figures-4-5": "Four scenarios",
            "table-4": "Table 4: learning rates and optimizers",
            "cifar-10-changes": "CIFAR-10: a rate for this network",
            "cifar-10-rates": "CIFAR-10: a rate for this network",
            "cifar-10-not-private": "The runs behind this page",
            "layer-wise": "A triplet for each layer",
            "table-3-search": "After a search of one size each",
        },
    ),
    "losing-less": (
        "03_losing_less",
        {
            "figure-3": "Figure 3: accuracy against ε",
            "not-private": "Figure 3: accuracy against ε",
            "figure-4": "Figure 4: on scattering features",
            "linear": "Figure 4: on scattering features",
            "statistics": "Figure 4: on scattering features",
            "equal-effort": "At equal effort",
            "inside": "Why: Figures 1, 2, 5 to 9 and 15",
            "ablation": "Which part does it? Figures 10 to 14",
            "other-errors": "Which part does it? Figures 10 to 14",
            "sensitivity": "Which part does it? Figures 10 to 14",
            "equation-9": "Which part does it? Figures 10 to 14",
            "weight-decay": "Which part does it? Figures 10 to 14",
            "adam": "Which part does it? Figures 10 to 14",
        },
    ),
    "backpropagation-clipping": (
        "04_backpropagation_clipping",
        {
            "table-1": "Table 1: as published",
            "figure-5": "Figure 5",
            "left-out": "What the text leaves out",
            "corrected": "The corrected code",
            "against-flat": "Against flat clipping, at a true ε",
        },
    ),
    "tanh-filter": (
        "05_tanh_filter",
        {
            "figures": "With the same noise: Figures 2 to 5",
            "cifar-10": "With the same noise: Figures 2 to 5",
            "cifar-10-rates": "CIFAR-10: each at its own rate",
            "left-out": "How much hangs on what is not printed",
            "at-equal-epsilon": "The filter made sound",
            "active-range": "The filter made sound",
            "expanded": "The filter made sound",
        },
    ),
    "leaderboard": (
        "08_leaderboard",
        {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"},
    ),
    "factorial": ("08_leaderboard", {"factorial": "Which remedies add up?"}),
    "recipe": (
        "08_leaderboard",
        {
            "search": "A recipe for two cores",
            "slanted": "A recipe for two cores",
            "parts": "What carries it",
            "remedies": "Do the remedies still help?",
        },
    ),
}


def paper(experiment: str) -> str:
    """Return the paper of an experiment, in words; of none, the first word of its name."""
    found = (key for key in CHAPTERS if experiment.startswith(key))
    return next(found, experiment.partition("-")[0]).replace("-", " ")


def section(experiment: str) -> tuple[str, str]:
    """Return the chapter of an experiment and the heading in it; empty where there is none."""
    key = paper(experiment).replace(" ", "-")
    chapter, headings = CHAPTERS.get(key, ("", {}))
    return chapter, headings.get(experiment.removeprefix(f"{key}-"), "")


def link(experiment: str) -> str:
    """Return the address of an experiment's section, from a page beside the chapters."""
    chapter, heading = section(experiment)
    return f"{chapter}.html#{make_id(heading)}"
