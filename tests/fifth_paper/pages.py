"""Prints what the study's lists and pages have of the fifth paper, once its runs are stored."""

import json
import runpy
import sys

from results_for_tests import dpstudy, figures_in, result_of

from dpstudy.lab import store
from under_the_clip import claims
from under_the_clip.automatic_clipping.experiments import NORMS
from under_the_clip.explorer import rows
from under_the_clip.ledger import figures as page
from under_the_clip.verdicts import what_is_left

ENDS = {"flat": 0.96, "automatic": 0.97, "automatic, C = 1": 0.97}
for label, run in NORMS.labelled():
    accuracy = ENDS[label] + 0.001 * run.seed
    store.write(store.runs_folder(), result_of(run, accuracy=accuracy))
judged = claims.ledger()


def printed(*command):
    return json.loads(dpstudy(*command, "--json").stdout)


def records(table):
    return table.data.to_dict("records")


[notebook] = sys.argv[1:]
found = {
    "list": [one for one in printed("list") if one["experiment"] == NORMS.name],
    "claims": printed("claims", "--paper", "automatic-clipping"),
    "verdicts": records(page.by_paper(judged)),
    "ledger": page.every_paper(judged)._repr_mimebundle_()["text/markdown"],
    "explorer": rows.table(rows.settings()).to_dict("records"),
    "front page": records(what_is_left(judged)),
    "guide": records(figures_in("guide").choices(judged)),
    "figure": runpy.run_path(notebook)["figure"].alt,
}
print(json.dumps(found))
