"""Stored records: read back as written, and refused when altered."""

import pytest
from results_for_tests import dpstudy

from dpstudy.errors import UserError
from dpstudy.lab import records, store

CONTENT = {"statement": "a", "verdict": "holds", "worst": -0.25, "tightness": None}
CONTENT |= {"looked": "3 cases", "finding": "None.", "provenance": {}}


def test_a_record_reads_back_as_written(tmp_path):
    records.write(tmp_path / "a.json", "theorems", CONTENT)
    assert records.read(tmp_path / "a.json", "theorems") == CONTENT
    assert records.read_all(tmp_path, "theorems") == ({"a": CONTENT}, [])


ALTERED = [("holds", "fails", "changed after"), ("{", "", "not intact")]


@pytest.mark.parametrize(("old", "new", "says"), [*ALTERED, ("record", "run", "not a result")])
def test_an_altered_record_is_named_and_left_out(tmp_path, old, new, says):
    path = tmp_path / "a.json"
    records.write(path, "theorems", CONTENT)
    path.write_text(path.read_text().replace(old, new, 1))
    found, [error] = records.read_all(tmp_path, "theorems")
    assert found == {} and says in str(error) and str(path) in str(error)


def test_a_record_of_another_kind_is_refused(tmp_path):
    records.write(tmp_path / "a.json", "benchmarks", CONTENT)
    with pytest.raises(store.DamagedError, match="a record of benchmarks, not of theorems"):
        records.read(tmp_path / "a.json", "theorems")


def test_an_unknown_kind_and_a_value_that_is_not_finite_are_refused(tmp_path):
    with pytest.raises(UserError, match="unknown kind of record 'figures'; one of: "):
        records.folder("figures")
    with pytest.raises(store.StoreError, match="not a finite number"):
        records.write(tmp_path / "a.json", "theorems", {"worst": float("nan")})
    assert not list(tmp_path.iterdir())


def test_records_are_not_taken_for_results_but_are_verified(results):
    path = records.folder("theorems") / "a.json"
    records.write(path, "theorems", CONTENT)
    assert store.read_all(results) == ({}, [])
    good = dpstudy("results", "verify")
    assert good.exit_code == 0 and "1 results" in good.output
    path.write_text(path.read_text().replace("holds", "fails"))
    bad = dpstudy("results", "verify")
    assert bad.exit_code != 0 and "changed after it was stored" in bad.output


@pytest.mark.parametrize("name", CONTENT)
def test_a_theorem_s_record_with_a_field_missing_or_of_another_type_is_named(results, name):
    path = records.folder("theorems") / "a.json"
    without = {field: value for field, value in CONTENT.items() if field != name}
    for content, said in (
        (without, f"no field {name!r}"),
        (CONTENT | {name: ["x"]}, f"field {name!r} is not"),
        (CONTENT | {f"{name}_2": 1}, f"unknown field '{name}_2'"),
    ):
        records.write(path, "theorems", content)
        done = dpstudy("results", "verify")
        assert done.exit_code == 1
        assert f"{path}: {said}" in done.stderr
