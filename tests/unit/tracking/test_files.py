import errno
import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechexp.errors import UserError
from mechexp.tracking.files import plain, read_json, write_json, write_text, write_whole

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
numpy_scalars = (
    st.floats().map(np.float64) | st.integers(-(2**31), 2**31).map(np.int64) | st.booleans().map(np.bool_)
)
trees = st.recursive(
    scalars | numpy_scalars,
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


def no_constants(name: str) -> float:
    raise AssertionError(f"{name} in strict JSON")


@given(trees)
def test_everything_stored_is_strict_json(tree: object) -> None:
    text = json.dumps(plain(tree), allow_nan=False)
    assert json.loads(text, parse_constant=no_constants) == plain(tree)


def test_numbers_keep_their_value_and_unknown_ones_become_null() -> None:
    row = plain(
        {
            "a": np.float32(0.5),
            "b": math.nan,
            "c": -math.inf,
            "d": np.int64(3),
            "e": np.array([1.0, math.nan]),
        }
    )
    assert row == {"a": 0.5, "b": None, "c": None, "d": 3, "e": [1.0, None]}


def test_a_value_that_json_cannot_hold_is_refused_not_stringified() -> None:
    with pytest.raises(TypeError, match="object"):
        plain({"x": object()})


def test_a_write_that_fails_keeps_the_old_file_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_text(path, "old")

    def half(aside: Path) -> None:
        aside.write_text("half of the ne")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(UserError, match="disk is full") as caught:
        write_whole(path, half)
    assert str(path) in str(caught.value)
    assert "resume=true" in str(caught.value)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def test_an_interrupted_write_leaves_nothing_behind(tmp_path: Path) -> None:
    def stopped(aside: Path) -> None:
        aside.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "x", stopped)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="no file size limits on this system")
def test_a_write_beyond_a_real_limit_is_one_clear_message(tmp_path: Path) -> None:
    program = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from mechexp.errors import UserError\n"
        "from mechexp.tracking.files import write_text\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "write_text(Path(sys.argv[1]), 'first')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "try:\n"
        "    write_text(Path(sys.argv[1]), 'x' * 10_000)\n"
        "except UserError as error:\n"
        "    print(error)\n"
    )
    path = tmp_path / "result.json"
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        capture_output=True,
        text=True,
        env={**os.environ},
        check=False,
    )
    assert "size limit" in done.stdout, done.stderr
    assert path.read_text() == "first"
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def test_a_file_where_a_folder_is_needed_is_told(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(UserError, match=r"file stands|is a file, not a folder"):
        write_text(tmp_path / "taken" / "result.json", "x")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b'{"a": NaN}', b"[1, 2]", b"\xff\xfe", b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}"],
    ids=["empty", "cut", "nan", "list", "bytes", "deep", "huge"],
)
def test_a_file_that_is_no_json_object_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        read_json(path, "result file")
    assert caught.value.where == str(path)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    write_json(tmp_path / "deep" / "x.json", {"é": [1, None, {"b": math.nan}]})
    assert read_json(tmp_path / "deep" / "x.json", "file") == {"é": [1, None, {"b": None}]}
