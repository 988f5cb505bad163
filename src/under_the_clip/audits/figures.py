"""What the audits show, on a page: claimed, proven and audited epsilon, and the layers' bounds."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from dpstudy.lab import records
from dpstudy.lab.wording import epsilon, rounded_down
from dpstudy.page.figure import STYLES, Figure, Note, Table, canvas, not_yet_run
from under_the_clip.audits import AUDITS, white_box

CANARIES = {
    white_box.searched_with_weights: "weights searched",
    white_box.searched: "weights as drawn",
    white_box.searched_after_training: "weights as its training leaves them",
    white_box.first_image: "the first training image, clipped",
    white_box.equal_features: "features that are all equal, clipped",
}
# What the tables show, by group.
GROUPS = {
    "Flat clipping": {
        "flat-clipping": "σ 1.23",
        "flat-clipping-epsilon-1": "σ for ε = 1",
        "per-layer-clipping": "per layer, σ 1.23",
        "recipe": "the recipe with its mean, σ for ε = 3",
    },
    "Backpropagation clipping": {
        "backpropagation-clipping-mnist-claims-0.07": "as published, MNIST",
        "backpropagation-clipping-mnist-claims-0.3": "as published, MNIST, less noise",
        "backpropagation-clipping-fashion-mnist-claims-0.87": "as published, Fashion-MNIST",
        **{
            f"backpropagation-clipping-corrected-aims-at-{target}": f"corrected, aims at {target}"
            for target in ("3", "1", "0.2", "0.1")
        },
        **{
            f"backpropagation-clipping-sound-spends-{target}": f"noise for a proven {target}"
            for target in ("3", "1", "0.2", "0.1")
        },
    },
    "Tanh filter, σ 1.1": {
        "tanh-filter": "as published",
        "tanh-filter-then-clipped": "then clipped",
        "tanh-filter-scaled-to-a-norm": "scaled to a norm",
        "automatic-clipping": "automatic clipping instead",
    },
}
# The opening figure's rows: the worst canary that was found for each mechanism and setting.
OPENING = {
    "backpropagation-clipping-mnist-claims-0.07": "backpropagation clipping,\nas published",
    "tanh-filter": "tanh filter,\nas published",
    "backpropagation-clipping-corrected-aims-at-3": "backpropagation clipping,\nsecond correction",
    "shuffled-proof": "shuffled batches,\nmade-up gradients",
    "shuffled-trained-weights": "shuffled batches,\na real network's",
    "flat-clipping": "flat clipping",
    "recipe": "the recipe,\nfirst edition",
}
SHOWN = {name: what for group in GROUPS.values() for name, what in group.items()}
_KINDS = {
    "claimed": ("claimed", STYLES[4]),
    "lower_bound": ("audited: at least", STYLES[0]),
    "proven": ("proven: at most", STYLES[2]),
}
_BOUNDS = {"audited ε": rounded_down, "proven ε": epsilon}
_COMMAND = "dpstudy audit --store"


def stored(kind: str = "audits") -> dict[str, dict[str, Any]]:
    """Return the stored records of audits, or of attacks, by name; damaged ones are left out."""
    return records.read_all(records.folder(kind), kind)[0]


def claimed_proven_audited() -> Figure | Note:
    """Draw three epsilons of seven mechanisms and settings: claimed, proven, and audited."""
    found = stored()
    rows = [
        {"what": what.replace("\n", " "), **{key: found[name][key] for key in _KINDS}}
        for name, what in OPENING.items()
        if name in found
    ]
    if not rows:
        return not_yet_run("The audits", _COMMAND)
    data = pd.DataFrame(rows)
    with canvas(size=(5.2, 3.6)) as (figure, (axes,)):
        axes.hlines(-data.index, data.lower_bound, data.proven, color="0.7")
        for kind, (label, style) in _KINDS.items():
            mark = {"color": style.color, "marker": style.marker, "linestyle": "none"}
            axes.plot(data[kind], -data.index, label=label, markersize=8, **mark)
        axes.set(xscale="log", xlabel="ε", xlim=(0.05, 60), ylim=(0.6 - len(data), 0.6))
        ticks = (0.1, 0.3, 1, 3, 10, 30)
        axes.set_xticks(ticks, map("{:g}".format, ticks))
        axes.set_yticks(-data.index, [of for name, of in OPENING.items() if name in found])
        axes.grid(visible=False, axis="y")
        figure.legend(loc="outside lower center", ncols=3)
    said = "; ".join(
        f"{row.what}: claimed {row.claimed:.3g}, "
        f"at least {rounded_down(row.lower_bound)}, at most {epsilon(row.proven)}"
        for row in data.itertuples()
    )
    return Figure(
        fig=figure,
        name="claimed-proven-audited",
        caption=(
            "Three ε of each mechanism. A claim left of the attack is false. What is proven for "
            "the first two lies far to the right of the axis."
        ),
        alt=f"A row for each mechanism, ε on a logarithmic axis. {said}.",
        data=data,
    )


def histograms(drawn: Mapping[str, np.ndarray], inside: np.ndarray, threshold: float) -> Figure:
    """Draw the scores of canaries that were in and of those left out, a panel by title.

    `inside` says whether each was in; above the `threshold` that is guessed.
    """
    edges, rows = np.linspace(-4, 6, 51), []
    with canvas(len(drawn), size=(5.2, 3.3), sharex=True) as (figure, panels):
        for axes, (title, scores) in zip(panels, drawn.items(), strict=True):
            for label, style, of in (("out", STYLES[4], ~inside), ("in", STYLES[0], inside)):
                heights, _ = np.histogram(scores[of], edges, density=True)
                above = edges[:-1] >= threshold - 1e-9
                axes.stairs(heights, edges, color=style.color, linewidth=1.5)
                axes.stairs(heights * above, edges, color=style.color, alpha=0.45, fill=True)
                top = edges[heights.argmax()], heights.max()
                share = float((scores[of] > threshold).mean())
                axes.annotate(label, top, xytext=(0, 2), **_ABOVE, color=style.color)
                rows.append({"scores": title, "canary": label, "guessed in": share})
            axes.axvline(threshold, color="0.3", linestyle="--", linewidth=1)
            axes.set(ylabel=title, yticks=[], ylim=(0, 1.18 * axes.get_ylim()[1]))
            told = "guessed in:\n{:.1g}% of those out\n{:.2g}% of those in"
            words = told.format(*(100 * row["guessed in"] for row in rows[-2:]))
            place = {"transform": axes.get_xaxis_transform(), "va": "top", "fontsize": "small"}
            axes.text(threshold + 0.2, 0.95, words, **place)
        panels[-1].set_xlabel("score")
    said = "; ".join("{scores}, {canary}: {guessed in:.2%}".format(**row) for row in rows)
    return Figure(
        fig=figure,
        name="audit-scores",
        caption="How much of the canary the attacker sees, where it was in and where it was not. "
        "Right of the threshold, dashed, the guess is in.",
        alt=f"Two overlapping bell curves a panel, cut by a threshold. Guessed to be in: {said}.",
        data=pd.DataFrame(rows),
    )


_ABOVE = {"textcoords": "offset points", "ha": "center", "weight": "bold"}


def _table(
    name: str, caption: str, rows: list[dict[str, Any]], formats: dict[str, Any], missing: str
) -> Table | Note:
    """Return rows as a table, or what stands in its place where there are none."""
    if not rows:
        return not_yet_run(missing, _COMMAND)
    return Table(name=name, caption=caption, data=pd.DataFrame(rows), formats=formats)


def by_canary(group: str) -> Table | Note:
    """Return what each canary shows of a group of `GROUPS`, by where the weights are."""
    rows, most_shown = {}, []
    for name, record in stored().items():
        base = name.removesuffix("-drawn-weights").removesuffix("-trained-weights")
        if base in GROUPS[group]:
            canary = AUDITS[name].canary
            most_shown.append(record["most_shown"])
            rows[list(SHOWN).index(base), list(CANARIES).index(canary)] = {
                "setting": SHOWN[base],
                "canary": CANARIES[canary],
                "gradient": record["attained"],
                "claimed ε": record["claimed"],
                "audited ε": record["lower_bound"],
                "if Gaussian": record["bounds"]["gaussian"],
                "proven ε": record["proven"],
            }
    return _table(
        f"audits-{group.partition(',')[0].lower().replace(' ', '-')}",
        f"{group}: audits. Claimed: what its source's accounting gives. Gradient: the canary's, as "
        "a share of what is proven possible. If Gaussian: what the same trials show, granted that "
        "the trade-off curve is that of a Gaussian. Without that they can show no more than "
        f"{max(most_shown, default=0):.2f}.",
        [rows[place] for place in sorted(rows)],
        {"gradient": "{:.1%}", "claimed ε": "{:.3g}", "if Gaussian": rounded_down, **_BOUNDS},
        "The audits",
    )


def shuffled() -> Table | Note:
    """Return what is shown of shuffled batches, by whose gradients the examples have."""
    kinds = {
        "shuffled-proof": "those of the proof",
        "shuffled-proof-in-4000-runs": "those of the proof",
        "shuffled-after-1-epoch": "of the network after 1 epoch",
        "shuffled-trained-weights": "of the trained network",
    }
    rows = [
        {
            "gradients": kinds[name],
            "trials": record["trials"],
            "stated ε": record["claimed"],
            "audited ε": record["lower_bound"],
            "proven ε": record["proven"],
        }
        for name, record in stored().items()
        if name in kinds
    ]
    return _table(
        "audits-shuffled",
        "Audits of shuffled batches on MNIST at σ = 1.23. Stated: by the formula for Poisson "
        "sampling, as the papers use it.",
        sorted(rows, key=lambda row: -row["audited ε"]),
        {"trials": "{:,}", "stated ε": "{:.2f}", **_BOUNDS},
        "Shuffled batches",
    )


def black_box() -> Table | Note:
    """Return what trained models alone show, by mechanism."""
    rows = [
        {
            "mechanism": record["mechanism"],
            "models": record["models"],
            "loss with it": record["loss"]["in"],
            "without": record["loss"]["out"],
            "claimed ε": record["claimed"],
            "audited ε": record["lower_bound"],
            "proven ε": record["proven"],
        }
        for record in stored().values()
        if record["box"] == "black box"
    ]
    return _table(
        "audits-black-box",
        "Black-box audits: the mean loss of the poisoned example, in models trained with it and "
        "without.",
        rows,
        {"loss with it": "{:.2f}", "without": "{:.2f}", "claimed ε": "{:.3g}", **_BOUNDS},
        "Black-box audits",
    )


def layers() -> Table | Note:
    """Return how near one example comes to the bound of each layer, by attack."""
    rows = [
        {"setting": record["setting"], "weights": weights, **record[key]}
        for record in stored("attacks").values()
        for key, weights in (("free", "searched"), ("drawn", "as drawn"))
    ]
    return _table(
        "layers-attacked",
        "The longest gradient found of one example in each layer, as a share of the proven bound "
        "ab, over images, labels and, where searched, weights.",
        rows,
        dict.fromkeys(list(rows[0])[2:], "{:.1%}") if rows else {},
        "The layers' bounds",
    )
