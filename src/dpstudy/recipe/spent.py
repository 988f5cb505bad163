"""What the classifier says of the privacy that it spent."""

from collections.abc import Sequence

from dpstudy.privacy import accounting, statement
from dpstudy.privacy.run_epsilon import LABELS
from dpstudy.privacy.statement import Statement
from dpstudy.recipe.settings import Settings

_SECURE = (
    "the operating system's cryptographic generator, without a seed; each normal is the sum of "
    "four over two, added in double precision and rounded once"
)
_SECRET = (
    f"a secret seed that is not kept, by {statement.THREEFRY}. Noise in single precision has gaps; "
    "secure=True has none of this"
)
_KNOWN = f"a seed that was given, by {statement.THREEFRY}"


_BY_A_RULE = (
    "nothing by this training: batch, steps and rate follow from the number of examples and "
    "epsilon by a rule that was found on public images. Other trainings on these data, such as "
    "those of cross-validation or a grid search, cost privacy of their own, which no part of this "
    "epsilon counts"
)


def statement_of(
    settings: Settings,
    *,
    read_off: Sequence[str],
    seeded: bool,
    secure: bool,
    searched: str = _BY_A_RULE,
) -> Statement:
    """State the privacy of a head that was trained with these settings.

    `read_off` names what was taken from the private data as they are.
    """
    spent = accounting.epsilon(**settings.spent)
    public = ["the number of examples", *read_off]
    return Statement(
        epsilon=spent,
        delta=settings.delta,
        guarantee=statement.guarantee_of(spent, settings.delta),
        **statement.COMMON,
        neighbours=statement.ADDED,
        accountant=LABELS["pld"],
        assumptions="batches are as the accountant assumes, and the sum is divided by their "
        "expected size",
        sampling=statement.sampling_of(settings.examples, settings.batch),
        steps=settings.steps,
        bound=f"each example's gradient is clipped to an l2 norm of {settings.clip_norm:g}",
        noise=statement.noise_of(settings.noise_multiplier),
        released_besides=statement.released_of(settings.release_noise, drawn=True),
        searched=searched,
        randomness=_SECURE if secure else _KNOWN if seeded else _SECRET,
        not_covered=(
            f"{' and '.join(public)}: taken from the data, and as public",
            "what was printed on the way, of pictures, time or memory",
            *statement.BESIDE,
        ),
        numbers=settings.spent,
    )
