"""What an attacker sees of a mechanism of your own: lower bounds on ε, beside what is proven."""

import sys

from own_mechanism import ElementWise

from dpstudy.parts.data.dataset import Images
from dpstudy.parts.run import Run, vary
from dpstudy.privacy import auditing, canaries
from dpstudy.privacy.run_epsilon import epsilon_curve
from under_the_clip.audits.white_box import first_image

run = vary(
    Run(),
    dataset=Images("mnist-5k"),
    batch=2_000,
    epochs=5,
    mechanism=ElementWise(bound=1e-5),  # so small that nearly every number comes to it
)
[proven] = epsilon_curve(run, [10])["pld"]  # after 10 steps
seen = canaries.trials(run, first_image(run), runs=10, canaries=4_000)
bounds = {name: bound for name, (bound, _) in auditing.bounds(seen, run.delta).items()}
print(f"proven: at most {proven:.2f}; if the noise is Gaussian, at least {bounds['gaussian']:.2f}")
print(f"whatever it is, at least {bounds['clopper-pearson']:.2f}")
if max(bounds["gaussian"], bounds["clopper-pearson"]) > proven:
    sys.exit("more leaks than is proven possible: code or proof are wrong")
