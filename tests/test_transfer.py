"""An archive adds what is intact and missing, whatever else it holds, and changes nothing else."""

import gzip
import io
import os
import shutil
import sys
import tarfile
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from results_for_tests import RUN, contents, result_of, seeds

from dpstudy.lab import records, store, transfer
from dpstudy.lab.store import StoreError
from dpstudy.parts.mechanism import NoPrivacy
from dpstudy.parts.run import Run, vary
from dpstudy.privacy import run_epsilon as privacy

NOT_PRIVATE = vary(Run(), mechanism=NoPrivacy())
ANOTHER = "is kept, though the archive holds another under its name"


@pytest.fixture
def here(tmp_path):
    """A results folder with three results."""
    folder = tmp_path / "here"
    for run in (*seeds(2), NOT_PRIVATE):
        store.write(folder / "runs", result_of(run))
    return folder


@pytest.fixture
def archive(here, tmp_path):
    assert transfer.export(here, tmp_path / "results.tar.gz") == (3, [])
    return tmp_path / "results.tar.gz"


def carried(home, there):
    """What becomes of all that is packed in one folder and merged into another."""
    archive = home.parent / f"{home.name}.tar.gz"
    transfer.export(home, archive)
    return transfer.merge(there, archive)


def pack(path, entries):
    """An archive of entries that `export` would not make: names with bytes, or whole entries."""
    with tarfile.open(path, "w:gz") as tar:
        for name, content in entries.items():
            if isinstance(content, tarfile.TarInfo):
                tar.addfile(content)
                continue
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return path


def test_what_is_missing_is_added_and_nothing_else_touched(here, archive, tmp_path):
    there = tmp_path / "there"
    store.write(there / "runs", result_of())
    assert transfer.merge(there, archive) == transfer.Merged(added=2, already=1)
    assert contents(there) == contents(here)
    for path in there.rglob("*.json"):
        os.utime(path, (1, 1))
    assert transfer.merge(there, archive) == transfer.Merged(already=3)
    assert {path.stat().st_mtime for path in there.rglob("*.json")} == {1}


@pytest.mark.parametrize(
    ("damage", "reason"),
    [(bytes, ANOTHER), (lambda whole: b"{", "not intact JSON (cut short or damaged)")],
)
def test_what_is_stored_is_kept_for_its_owner_to_judge_and_named(archive, tmp_path, damage, reason):
    there = tmp_path / "there"
    path = store.write(there / "runs", result_of(accuracy=0.123))
    path.write_bytes(damage(path.read_bytes()))
    was = path.read_bytes()
    merged = transfer.merge(there, archive)
    assert (merged.added, merged.already) == (2, 0)
    assert merged.refused == [f"{path}: {reason}"]
    assert path.read_bytes() == was


def test_the_same_training_on_another_day_is_already_there(archive, tmp_path):
    there = tmp_path / "there"
    store.write(there / "runs", result_of(provenance={"device": "another abacus"}))
    assert transfer.merge(there, archive) == transfer.Merged(added=2, already=1)


def test_a_damaged_entry_is_refused_and_named_and_the_others_are_added(here, tmp_path):
    good, cut, _ = sorted((here / "runs").iterdir())
    archive = pack(
        tmp_path / "mixed.tar.gz",
        {
            f"runs/{good.name}": good.read_bytes(),
            f"runs/{cut.name}": cut.read_bytes()[:100],
            f"runs/{good.name.replace('.', '0.')}": good.read_bytes(),
            "runs/notes.json": b'{"shopping": ["milk"]}',
        },
    )
    merged = transfer.merge(tmp_path / "there", archive)
    assert merged.added == 1
    assert set(merged.refused) == {
        f"runs/{cut.name}: not intact JSON (cut short or damaged)",
        f"runs/{good.name.replace('.', '0.')}: holds the run {good.stem}, which its name does not "
        "say",
        "runs/notes.json: not a result of this study",
    }
    assert contents(tmp_path / "there") == {f"runs/{good.name}": good.read_bytes()}


def entry_of(name, kind=tarfile.REGTYPE, target="", headers=()):
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.pax_headers = kind, target, dict(headers)
    return entry


# An entry that holds nothing but its size: tar's way to pack holes.
SPARSE = {"major": "0", "minor": "1", "map": f"{2**34},0", "size": str(2**34)}


def test_entries_that_are_at_no_result_s_place_are_ignored(here, tmp_path):
    good = next((here / "runs").iterdir())
    outside = tmp_path / "outside" / good.name
    outside.parent.mkdir()
    outside.write_bytes(good.read_bytes())
    names = """../NAME ../../NAME runs/../../NAME runs/../NAME ./../NAME /NAME .smoke/NAME
        .smoke/runs/NAME runs/.checkpoints/NAME runs/.NAME NAME one/NAME runs/b/NAME
        runs\\NAME runs/readme.txt"""
    places = [str(outside), *names.replace("NAME", good.name).split()]
    strange = [
        entry_of(f"runs/{good.name}", tarfile.SYMTYPE, str(outside)),
        entry_of("runs/other.json", tarfile.LNKTYPE, f"/{good.name}"),
        entry_of("runs/device.json", tarfile.CHRTYPE),
        entry_of("runs/sparse.json", headers={f"GNU.sparse.{k}": SPARSE[k] for k in SPARSE}),
    ]
    entries = dict.fromkeys(places, good.read_bytes()) | {one.name: one for one in strange}
    archive = pack(tmp_path / "hostile.tar.gz", entries)
    was = contents(tmp_path)
    merged = transfer.merge(tmp_path / "deep" / "there", archive)
    assert merged == transfer.Merged(ignored=len(entries))
    assert contents(tmp_path) == was


def test_an_archive_packed_by_hand_is_merged_too(here, tmp_path):
    """With `tar -C results -czf FILE .`: places begin with a dot, and folders are entries."""
    archive = tmp_path / "by-hand.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(here, arcname=".")
    assert transfer.merge(tmp_path / "there", archive) == transfer.Merged(added=3)
    assert contents(tmp_path / "there") == contents(here)


def test_an_archive_cut_short_at_any_byte_is_one_line_and_adds_nothing(archive, tmp_path):
    whole = archive.read_bytes()
    for length in [*range(0, len(whole), 7), len(whole) - 1]:
        archive.write_bytes(whole[:length])
        with pytest.raises(StoreError, match=NONE):
            transfer.merge(tmp_path / "there", archive)
    assert not (tmp_path / "there").exists()


@settings(max_examples=40, deadline=None)
@given(inside=st.booleans(), data=st.data())
def test_an_archive_with_any_byte_altered_adds_nothing_false(tmp_path_factory, inside, data):
    base = tmp_path_factory.mktemp("altered")
    wanted = {store.write(base / "here" / "runs", result_of(run)).stem for run in seeds(2)}
    archive = base / "results.tar.gz"
    transfer.export(base / "here", archive)
    whole = bytearray(archive.read_bytes())
    if inside:
        whole = bytearray(gzip.decompress(whole))
    position = data.draw(st.integers(0, len(whole) - 1), label="position")
    whole[position] ^= data.draw(st.integers(1, 255), label="change")
    archive.write_bytes(gzip.compress(whole) if inside else whole)
    try:
        transfer.merge(base / "there", archive)
    except StoreError as error:
        assert "\n" not in str(error)
    found, errors = store.read_all(base / "there" / "runs")
    assert errors == []
    assert set(found) <= wanted
    assert all(result == result_of(result.run) for result in found.values())


NONE = r"not a .tar.gz, or cut short or damaged"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        *((content, NONE) for content in (b"", b"hello", b"\x1f\x8b", b"PK\x03\x04" + bytes(100))),
        (None, "No such file or directory"),
        ("a folder", "Is a directory"),
    ],
    ids=str,
)
def test_what_is_not_an_archive_is_one_line(tmp_path, content, reason):
    path = tmp_path / "results.tar.gz"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content:
        path.mkdir()
    line = f"^{path}: cannot be read as an archive of results: {reason}$"
    with pytest.raises(StoreError, match=line):
        transfer.merge(tmp_path / "there", path)


@pytest.mark.parametrize("behind", [False, True])
def test_an_archive_that_unpacks_to_too_much_is_not_read_to_its_end(tmp_path, monkeypatch, behind):
    limit = 2**20
    monkeypatch.setattr(transfer, "_MOST_IN_ALL", limit)
    archive = pack(tmp_path / "bomb.tar.gz", {} if behind else {"notes.txt": bytes(32 * limit)})
    if behind:
        archive.write_bytes(archive.read_bytes() + gzip.compress(bytes(32 * limit)))
    tracemalloc.start()
    try:
        with pytest.raises(StoreError, match=r"as an archive of results: more than 1,048,576 byte"):
            transfer.merge(tmp_path / "there", archive)
        assert tracemalloc.get_traced_memory()[1] < 4 * limit
    finally:
        tracemalloc.stop()


def test_results_that_came_without_their_epsilon_are_completed_or_refused(tmp_path):
    """What came with its epsilon keeps it: a merge does not account again."""
    bare = [result_of(vary(run, noise_multiplier=4.0), epsilon={}) for run in seeds(2)]
    beyond = result_of(vary(RUN, noise_multiplier=1e-30), epsilon={})
    for result in (*bare, beyond, result_of(), result_of(NOT_PRIVATE)):
        store.write(tmp_path / "node" / "runs", result)
    merged = carried(tmp_path / "node", tmp_path / "here")
    [refused] = merged.refused
    assert refused.startswith(f"runs/{beyond.name}: noise multiplier must be between 0.001")
    found, _ = store.read_all(tmp_path / "here" / "runs")
    assert merged.added == len(found) == 4
    for result in bare:
        expected = privacy.epsilon_curve(result.run, result.curve["step"])
        assert len(expected["pld"]) == RUN.epochs
        assert found[result.run.identity] == replace(result, epsilon=expected)
    assert found[RUN.identity].epsilon == result_of().epsilon
    assert found[NOT_PRIVATE.identity].epsilon == {}


def test_hidden_files_and_repeats_are_not_packed(here, tmp_path):
    packed = sorted((here / "runs").iterdir())
    store.write(here / ".smoke" / "runs", result_of())
    store.write(here / "repeats", result_of())
    (here / "runs" / ".checkpoints").mkdir()
    (here / "runs" / ".checkpoints" / f"{packed[0].stem}.npz").write_bytes(b"state")
    assert transfer.export(here, tmp_path / "results.tar.gz") == (3, [])
    with tarfile.open(tmp_path / "results.tar.gz") as tar:
        assert tar.getnames() == [f"runs/{path.name}" for path in packed]


def of_pax(**headers):
    """An entry at a result's place, with headers that `pack` would not write."""
    entry = tarfile.TarInfo("runs/x.json")
    entry.pax_headers = {name.replace("_", "."): value for name, value in headers.items()}
    return entry.tobuf(tarfile.PAX_FORMAT)


def chained(kind, count):
    entry = tarfile.TarInfo("././@LongLink")
    entry.type, entry.size = kind, 8
    return (entry.tobuf(tarfile.GNU_FORMAT) + b"runs/x".ljust(512, b"\0")) * count


@pytest.mark.parametrize(
    "blocks",
    [
        *(of_pax(size=size) for size in ("9" * 18, "9" * 20, "-5000")),
        of_pax(GNU_sparse_major="1", GNU_sparse_minor="0", GNU_sparse_realsize="9" * 400),
        *(chained(kind, 3_000) for kind in (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)),
    ],
    ids=range(6),
)
def test_what_tar_stumbles_over_is_one_line(blocks, tmp_path):
    archive = tmp_path / "hostile.tar.gz"
    archive.write_bytes(gzip.compress(blocks + bytes(1024)))
    with pytest.raises(StoreError, match=rf"^{archive}: cannot be read as an archive of [^\n]*$"):
        transfer.merge(tmp_path / "there", archive)
    assert not (tmp_path / "there").exists()


def test_of_two_different_results_under_one_name_neither_is_added(here, tmp_path):
    one, other, *_ = sorted((here / "runs").iterdir())
    archive = tmp_path / "twice.tar.gz"
    contents_of_one = [one.read_bytes(), result_bytes(tmp_path, one), one.read_bytes()]
    with tarfile.open(archive, "w:gz") as tar:
        for name, content in (
            *((f"runs/{one.name}", content) for content in contents_of_one),
            *(
                (name, other.read_bytes())
                for name in (f"runs/{other.name}", f"./runs/{other.name}")
            ),
        ):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    merged = transfer.merge(tmp_path / "there", archive)
    assert merged.refused == [f"runs/{one.name}: the archive holds different ones under this name"]
    assert contents(tmp_path / "there") == {f"runs/{other.name}": other.read_bytes()}


def result_bytes(tmp_path, path):
    """Another result of the same run."""
    again = replace(store.read(path), class_accuracy=[0.5] * 10)
    return store.write(tmp_path / "else", again).read_bytes()


def test_the_same_results_give_the_same_archive_whoever_packs_it(here, archive, tmp_path):
    with tarfile.open(archive) as tar:
        assert {(e.uid, e.gid, e.uname, e.gname) for e in tar} == {(0, 0, "", "")}
    for path in here.rglob("*.json"):
        os.utime(path, (1, 1))
        path.chmod(0o664)
    transfer.export(here, tmp_path / "again.tar.gz")
    assert (tmp_path / "again.tar.gz").read_bytes() == archive.read_bytes()


def test_an_archive_that_cannot_be_written_is_one_line(here, tmp_path):
    with pytest.raises(StoreError, match=r"results.tar.gz: cannot be written \(Not a directory"):
        transfer.export(here, next((here / "runs").iterdir()) / "results.tar.gz")


def test_packing_replaces_nothing_and_packs_no_empty_folder(here, archive, tmp_path):
    before = archive.read_bytes()
    with pytest.raises(StoreError, match=r"results.tar.gz is there already: name another"):
        transfer.export(here, archive)
    assert archive.read_bytes() == before
    with pytest.raises(StoreError, match=r"^there are no results to pack in "):
        transfer.export(tmp_path / "mistyped", tmp_path / "none.tar.gz")
    assert not (tmp_path / "none.tar.gz").exists()


def test_packing_needs_no_accounting(here, tmp_path, monkeypatch):
    """A bare GPU node has none, and sends its results all the same."""
    for name in ("dp_accounting", "scipy", "pandas", "pydantic", "dpstudy.privacy.run_epsilon"):
        monkeypatch.setitem(sys.modules, name, None)
    assert transfer.export(here, tmp_path / "results.tar.gz") == (3, [])


CHOICE = {"experiment": "one", "dataset": "mnist", "label": "best", "run": {}, "by": "a coin"}
CHOICE |= {"point": None}


def keep(folder, content=CHOICE, name="one-mnist-best"):
    path = folder / "searches" / f"{name}.json"
    records.write(path, "searches", content)
    return path


def test_choices_of_searches_go_along_and_other_records_stay(here, tmp_path):
    keep(here)
    records.write(here / "benchmarks" / "abacus.json", "benchmarks", {"seconds": 1})
    assert transfer.export(here, tmp_path / "results.tar.gz") == (4, [])
    there = tmp_path / "there"
    assert transfer.merge(there, tmp_path / "results.tar.gz") == transfer.Merged(added=4)
    shutil.rmtree(here / "benchmarks")
    assert contents(there) == contents(here)
    assert transfer.merge(there, tmp_path / "results.tar.gz") == transfer.Merged(already=4)


def test_a_stored_choice_is_kept(tmp_path):
    keep(tmp_path / "here")
    stored = keep(tmp_path / "there", CHOICE | {"by": "a die"})
    was = stored.read_bytes()
    merged = carried(tmp_path / "here", tmp_path / "there")
    assert merged.refused == [f"{stored}: {ANOTHER}"]
    assert stored.read_bytes() == was


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"label": "2nd best"}, "holds the choice of one-mnist-2nd-best.json, which its name "),
        *(
            (change, "not a choice of this version: ")
            for change in ({"run": {"speed": 1}}, {"run": None}, {"point": "here"}, {"label": 3})
        ),
    ],
)
def test_a_foreign_choice_is_refused(tmp_path, change, reason):
    path = keep(tmp_path / "else", CHOICE | change)
    archive = pack(tmp_path / "foreign.tar.gz", {"searches/one-mnist-best.json": path.read_bytes()})
    merged = transfer.merge(tmp_path / "there", archive)
    assert merged.added == 0
    assert merged.refused[0].startswith(f"searches/one-mnist-best.json: {reason}")


def test_a_run_among_the_choices_and_a_choice_among_the_runs_are_refused(here, tmp_path):
    run, choice = next((here / "runs").iterdir()), keep(tmp_path / "else")
    entries = {f"searches/{run.name}": run.read_bytes(), "runs/x.json": choice.read_bytes()}
    merged = transfer.merge(tmp_path / "there", pack(tmp_path / "mixed.tar.gz", entries))
    assert (merged.added, len(merged.refused)) == (0, 2)
    assert not (tmp_path / "there").exists()
