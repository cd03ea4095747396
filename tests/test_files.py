"""Files in folders that others may write to: every read has an end, and no write leads elsewhere."""

import ast
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from airfeel import _files
from guards import limited, plant

READERS = {
    "read_bytes": _files.read_bytes,
    "read_text": _files.read_text,
    "read_lines": lambda path: list(_files.read_lines(path)),
    "digest": _files.digest,
    "digest_start": lambda path: _files.digest_start(path, 2**62),
    "read_arrays": _files.read_arrays,
}
WRITERS = {
    "append_line": lambda path: _files.append_line(path, "line"),
    "sync": _files.sync,
    "cut": lambda path: _files.cut(path, 0),
}


ODD = ["/dev/zero", "/dev/urandom", "/dev/null", "pipe", "folder"]


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("reader", READERS)
def test_only_regular_files_are_read(tmp_path, kind, reader):
    plant(tmp_path / "file", kind)
    with limited(), pytest.raises(_files.Unreadable, match="file: is not a regular file$"):
        READERS[reader](tmp_path / "file")


@pytest.mark.parametrize("reader", ["read_bytes", "read_text", "read_lines", "digest", "read_arrays"])
def test_a_file_of_nothing_but_a_hole_is_refused(tmp_path, reader):
    plant(tmp_path / "file", "hole")
    with limited(), pytest.raises(_files.Unreadable, match="file: (is larger than|has a line of more than)"):
        READERS[reader](tmp_path / "file")


def test_bounds_are_exact(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"1234567\n" * 3)
    assert _files.read_bytes(path, 24) == path.read_bytes()
    assert list(_files.read_lines(path, longest=8)) == [b"1234567\n"] * 3
    with pytest.raises(_files.Unreadable, match="is larger than 23 bytes"):
        _files.read_bytes(path, 23)
    with pytest.raises(_files.Unreadable, match="has a line of more than 7 bytes"):
        list(_files.read_lines(path, longest=7))
    assert _files.digest_start(path, 24) == _files.digest(path) == _files.digest_start(path, 99)
    assert _files.digest_start(path, 23) != _files.digest(path)


# --- archives ----------------------------------------------------------------------------------------------

ARRAYS = {
    "number": np.array(3.5),
    "vector": np.arange(7, dtype=np.uint32),
    "matrix": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "empty": np.zeros((0, 5), np.float32),
    "word": np.array("TSAGAState"),
    "flags": np.array([True, False]),
}


def packed(save=np.savez, **arrays):
    buffer = io.BytesIO()
    save(buffer, **(arrays or ARRAYS))
    return buffer.getvalue()


def forged(header, body=b"", compression=zipfile.ZIP_STORED):
    """An archive with one array whose header is written by hand."""
    buffer = io.BytesIO()
    text = header.encode().ljust(117) + b"\n"
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body)
    return buffer.getvalue()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archives_are_read_as_numpy_reads_them(save):
    found = _files.read_arrays(packed(save), most=10_000)
    with np.load(io.BytesIO(packed(save)), allow_pickle=False) as expected:
        assert set(found) == set(expected)
        for name in expected:
            np.testing.assert_array_equal(found[name], expected[name], strict=True)
            assert found[name].flags.writeable


@pytest.mark.parametrize(
    ("header", "body"),
    [
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (100000000000,)}", bytes(80)),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (10, 10**1)}", bytes(80)),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (2**40,)}", bytes(80)),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (11,)}", bytes(80)),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (9,)}", bytes(80)),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (-2, -5)}", bytes(80)),
        ("{'descr': '|V0', 'fortran_order': False, 'shape': (100000000000,)}", b""),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (10,)}", bytes(80)),
        ("{'descr': '<U99999999999', 'fortran_order': False, 'shape': ()}", bytes(80)),
        ("nothing", b""),
        ("[" * 100, b""),
    ],
)
def test_headers_that_promise_something_else_are_refused(header, body):
    with limited(), pytest.raises(_files.Unreadable, match="file.npz: is no whole archive of arrays"):
        _files.read_arrays(forged(header, body), name="file.npz")


@pytest.mark.long
def test_an_archive_cannot_grow_beyond_its_bound(tmp_path):
    path = tmp_path / "file.npz"
    path.write_bytes(packed(np.savez_compressed, x=np.zeros(2**24)))  # 128 MiB in 130 kB
    for most in (None, 2**27):
        with limited(2**25), pytest.raises(_files.Unreadable, match="promises more bytes than it can hold"):
            _files.read_arrays(path, most)
    assert _files.read_arrays(path, 2**27 + 2**10)["x"].size == 2**24


# --- writing -----------------------------------------------------------------------------------------------


@pytest.fixture
def victim(tmp_path):
    path = tmp_path / "victim"
    path.write_bytes(b"precious\n")
    yield path
    assert path.read_bytes() == b"precious\n"


@pytest.mark.parametrize("writer", WRITERS)
def test_nothing_is_written_through_a_link(tmp_path, victim, writer):
    link = tmp_path / "link"
    for target in (victim, tmp_path / "new", "/dev/full"):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        with limited(), pytest.raises(_files.Unreadable, match="link: is a symbolic link"):
            WRITERS[writer](link)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("kind", ["pipe", "folder"])
@pytest.mark.parametrize("writer", WRITERS)
def test_only_regular_files_are_written(tmp_path, kind, writer):
    plant(tmp_path / "file", kind)
    with limited(), pytest.raises(OSError, match="not a regular file|Is a directory"):
        WRITERS[writer](tmp_path / "file")


def test_a_lock_leaves_the_content_of_its_file_alone(victim):
    with _files.locked(victim, wait=True), pytest.raises(BlockingIOError), _files.locked(victim, wait=False):
        pass


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_what_stands_in_the_place_of_a_lock_blocks_nobody(tmp_path, victim, kind):
    path = tmp_path / "file"
    plant(path, kind.replace("link", str(victim)))
    with limited(), _files.locked(path, wait=False):
        assert path.is_file() and not path.is_symlink()


def test_a_link_is_replaced_and_its_target_kept(tmp_path, victim):
    (tmp_path / "file").symlink_to(victim)
    _files.write_atomically(tmp_path / "file", b"new")
    assert not (tmp_path / "file").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"new"
    assert {path.name for path in tmp_path.iterdir()} == {"file", "victim"}


WRITING = """
import os, sys, time
from pathlib import Path
from airfeel import _files
os.replace = lambda old, new: (print(old, flush=True), time.sleep(600))
_files.write_atomically(Path(sys.argv[1]), b"new")
"""


def test_what_a_killed_writer_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path):
    words = [sys.executable, "-c", WRITING, str(tmp_path / "file")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as writer:
        temporary = Path(writer.stdout.readline().strip())
        other = tmp_path / "notes.tmp"  # of somebody else's
        other.write_bytes(b"kept")
        try:
            _files.remove_abandoned(tmp_path)
            assert set(tmp_path.iterdir()) == {temporary, other}
        finally:
            writer.kill()
    _files.remove_abandoned(tmp_path)
    assert set(tmp_path.iterdir()) == {other}


# --- nobody else opens files -------------------------------------------------------------------------------

SOURCE = Path(_files.__file__).parent


def opens_a_file(call):
    """Whether a call in the source reads or writes a file by itself."""
    match call.func:
        case ast.Name(id="open"):
            return True
        case ast.Attribute(value=ast.Name(id="files" | "_files")):
            return False
        case ast.Attribute(
            attr="read_text" | "read_bytes" | "write_text" | "write_bytes" | "truncate" | "touch"
        ):
            return True
        case ast.Attribute(value=ast.Name(id="np"), attr="load" | "save" | "fromfile" | "memmap" | "loadtxt"):
            return True
        case ast.Attribute(attr="open"):  # of a path: its first argument is a mode
            return any(
                isinstance(word, ast.Constant) and str(word.value)[:1] in tuple("rwax") for word in call.args
            )
    return False


def calls(source, wanted, trusted=()):
    """Where in the package something is done that only one module should do."""
    without_numpy = (
        SOURCE / "lab/figures/__init__.py",
        SOURCE / "registry.py",
    )  # they read the package alone
    return [
        f"{path.relative_to(source)}:{node.lineno}"
        for path in sorted(source.rglob("*.py"))
        if path not in (Path(_files.__file__), *without_numpy) and path.name not in trusted
        for node in ast.walk(ast.parse(path.read_text()))
        if wanted(node)
    ]


def test_every_file_is_opened_and_parsed_in_one_place():
    """Elsewhere, brackets without end would be a RecursionError."""
    assert calls(SOURCE, lambda node: isinstance(node, ast.Call) and opens_a_file(node)) == []
    words = ("json.loads", "tomllib.loads")
    trusted = {"claim_rules.py", "charts.py"}  # what is shipped, and what was just made
    parsing = calls(
        SOURCE, lambda node: isinstance(node, ast.Attribute) and ast.unparse(node) in words, trusted
    )
    assert parsing == []
