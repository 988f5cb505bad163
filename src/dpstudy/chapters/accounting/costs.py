"""The price of the four papers' settings: claimed, recomputed, and proven."""

from __future__ import annotations

import math

import pandas as pd

from dpstudy.chapters.accounting.common import (
    AT_DELTA,
    NAMES,
    setting_epsilon,
    show_epsilon,
    unsampled_epsilon,
)
from dpstudy.chapters.accounting.sensitivities import TANH_FILTER_EPOCHS, tanh_epsilon
from dpstudy.ledger.published import DELTA, MNIST_PARAMETERS, Setting
from dpstudy.ledger.wording import rounded_down
from dpstudy.page.figure import Table
from dpstudy.papers.backpropagation_clipping.published import (
    BACKPROPAGATION_CLIPPING,
    BackpropagationClipping,
)
from dpstudy.papers.losing_less.published import END_TO_END, SCATTERNET
from dpstudy.papers.tanh_filter.published import TANH_FILTER, TanhFilter
from dpstudy.papers.tempered_sigmoids.published import CLAIMS
from dpstudy.parts.images import DATASETS
from dpstudy.parts.sampling import steps_per_epoch
from dpstudy.privacy.accounting import epsilon
from dpstudy.privacy.conversions import gdp_epsilon
from dpstudy.privacy.shuffling import least_epsilon_curve


def cost_table() -> Table:
    """Tabulate the epsilon of the four papers' settings: claimed, recomputed, and proven."""
    rows = [
        *map(_setting_row, END_TO_END + SCATTERNET),
        *map(_backpropagation_row, BACKPROPAGATION_CLIPPING),
        *map(_tanh_row, TANH_FILTER),
    ]
    columns = list(rows[0])
    claims = [
        dict.fromkeys(columns)
        | {"Paper": claim.paper, "Data set": DATASETS[claim.dataset], "Claimed ε": claim.epsilon}
        for claim in CLAIMS
    ]
    epsilons = columns[columns.index("Claimed ε") :]
    data = pd.DataFrame(claims + rows, columns=columns)
    return Table(
        name="cost-of-the-settings",
        caption=(
            f"ε at {AT_DELTA}, for one example added or removed; shuffled, for one example "
            "blanked. At least, shuffled: what some gradients within the clip give away, where "
            "every noisy sum is seen. σ: noise over claimed sensitivity, of one step, or for "
            "backpropagation clipping of one epoch, all layers together. A dash: not published, "
            "not used by the paper, not computable from what it states, or not computed. The "
            "tanh filter's "
            f"{TANH_FILTER_EPOCHS} epochs and {MNIST_PARAMETERS:,} parameters are our choice: its "
            "paper states neither."
        ),
        data=data.astype({name: float for name in ("q", "σ", "Steps", *epsilons)}),
        formats={
            "q": "{:.4f}",
            "σ": "{:.3g}",
            "Steps": "{:.0f}",
            **dict.fromkeys(epsilons, show_epsilon),
            "At least, shuffled": rounded_down,
        },
    )


def _least_epsilon(setting: Setting) -> float:
    [least] = least_epsilon_curve(
        examples=setting.examples,
        batch=setting.batch,
        noise_multiplier=setting.noise_multiplier,
        epochs=[setting.epochs],
        delta=setting.delta,
    )
    return least


def _cost_row(
    *,
    paper: str,
    dataset: str,
    q: float,
    sigma: float,
    steps: int,
    claimed: float | None,
    poisson: float | None,
    at_most: float | None,
    at_least: float | None = None,
    accountants: tuple[str, ...] = tuple(NAMES),
) -> dict[str, object]:
    accounted = dict.fromkeys(NAMES.values()) | {
        NAMES[accountant]: epsilon(
            sampling_probability=q,
            noise_multiplier=sigma,
            steps=steps,
            delta=DELTA,
            accountant=accountant,
        )
        for accountant in accountants
    }
    row = {"Paper": paper, "Data set": dataset, "q": q, "σ": sigma, "Steps": steps}
    proven = {
        "Proven, Poisson": poisson,
        "At least, shuffled": at_least,
        "Proven, shuffled": at_most,
    }
    return row | {"Claimed ε": claimed} | accounted | proven


def _setting_row(setting: Setting) -> dict[str, object]:
    public = "" if setting.network == "end-to-end" else f", {setting.network}"
    return _cost_row(
        paper=setting.paper,
        dataset=DATASETS[setting.dataset] + public,
        q=setting.sampling_probability,
        sigma=setting.noise_multiplier,
        steps=setting.steps,
        claimed=setting.claimed_epsilon,
        poisson=setting_epsilon(setting, "pld"),
        at_most=gdp_epsilon(math.sqrt(setting.epochs) / setting.noise_multiplier, DELTA),
        at_least=_least_epsilon(setting),
    )


def _backpropagation_row(setting: BackpropagationClipping) -> dict[str, object]:
    """One row a run: an example enters one batch an epoch, so an epoch is one unsampled step."""
    sigma = setting.claimed_noise_multiplier / math.sqrt(setting.layers)
    return _cost_row(
        paper="backprop clipping",
        dataset=DATASETS[setting.dataset],
        q=1.0,
        sigma=sigma,
        steps=setting.epochs,
        claimed=setting.claimed_epsilon,
        poisson=epsilon(
            sampling_probability=setting.batch / setting.examples,
            noise_multiplier=setting.proven_noise_multiplier / math.sqrt(setting.layers),
            steps=setting.epochs * steps_per_epoch(setting.examples, setting.batch),
            delta=setting.delta,
        ),
        at_most=unsampled_epsilon(setting.proven_rho),
        accountants=("rdp", "pld"),  # the paper itself converts from zCDP
    )


def _tanh_row(setting: TanhFilter) -> dict[str, object]:
    known = setting.dataset == "mnist"
    sigma = setting.noise_multiplier(MNIST_PARAMETERS)
    return _cost_row(
        paper="tanh filter",
        dataset=DATASETS[setting.dataset],
        q=setting.sampling_probability,
        sigma=setting.noise_std / setting.claimed_sensitivity,
        steps=TANH_FILTER_EPOCHS * steps_per_epoch(setting.examples, setting.batch),
        claimed=setting.claimed_epsilon,
        poisson=tanh_epsilon(setting, MNIST_PARAMETERS, TANH_FILTER_EPOCHS) if known else None,
        at_most=gdp_epsilon(math.sqrt(TANH_FILTER_EPOCHS) / sigma, DELTA) if known else None,
    )
