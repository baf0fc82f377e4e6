import errno
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import fsspec
import pytest

from litebert.config import UserError
from litebert.files import (
    exists,
    explain,
    fetch,
    find_files,
    is_url,
    name_in_chain,
    open_file,
    replace_file,
    write_file,
)


@pytest.fixture(autouse=True)
def empty_memory() -> None:
    fsspec.filesystem("memory").store.clear()


@pytest.fixture(params=["path", "file", "local", "memory"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for files: a folder, the same by its URLs, or the memory behind fsspec."""
    return {
        "path": str(tmp_path),
        "file": f"file://{tmp_path}",
        "local": f"local://{tmp_path}",
        "memory": "memory://root",
    }[request.param]


def names(found: dict[str, int]) -> list[str]:
    return [path.rsplit("/", 1)[-1] for path in found]


def test_what_is_written_is_read(root: str) -> None:
    path = f"{root}/deep/folder/a.bin"
    assert not exists(path)
    write_file(path, b"one")
    write_file(path, b"other")
    assert exists(path)
    with open_file(path) as file:
        assert file.read() == b"other"


def test_a_folder_stands_for_all_files_below_it_in_order(root: str) -> None:
    for name in ("b.txt", "a.txt", "deep/c.txt", ".hidden", ".git/d.txt"):
        write_file(f"{root}/{name}", name.encode())
    found = find_files(root)
    assert names(found) == ["a.txt", "b.txt", "c.txt"]
    assert list(found.values()) == [5, 5, 10]
    for path in found:
        with open_file(path) as file:
            assert len(file.read()) == found[path]


def test_folders_that_are_linked_are_entered_once(tmp_path: Path) -> None:
    for name in ("here/a.txt", "there/b.txt"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("x")
    (tmp_path / "here" / "linked").symlink_to(tmp_path / "there")
    (tmp_path / "there" / "back").symlink_to(tmp_path / "here")
    assert [Path(path).name for path in find_files(tmp_path / "here")] == ["a.txt", "b.txt"]


def test_a_pattern_stands_for_the_files_that_match_it(root: str) -> None:
    for name in ("a.txt", "b.txt", "b.csv", "deep/c.txt"):
        write_file(f"{root}/{name}", b"")
    assert names(find_files(f"{root}/*.txt")) == ["a.txt", "b.txt"]
    assert names(find_files(f"{root}/[b-z].*")) == ["b.csv", "b.txt"]
    assert names(find_files(f"{root}/**/*.txt")) == ["a.txt", "b.txt", "c.txt"]


def test_a_pattern_that_matches_a_folder_stands_for_all_files_below_it(root: str) -> None:
    for name in ("books/a.txt", "books/deep/b.txt", "books/.c.txt", "boots.txt", "other/d.txt"):
        write_file(f"{root}/{name}", name.encode())
    assert names(find_files(f"{root}/book*")) == ["a.txt", "b.txt"]
    assert find_files(f"{root}/book*") == find_files(f"{root}/books")
    assert names(find_files(f"{root}/boo*")) == ["a.txt", "b.txt", "boots.txt"]
    assert find_files(f"{root}/books/*") == find_files(f"{root}/books/**") == find_files(f"{root}/books")
    assert list(find_files(f"{root}/books/*").values()) == [11, 16]


def test_a_pattern_means_what_it_means_to_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("books/a.txt", "books/deep/b.txt", "boots.txt", "other/d.txt", ".boo/e.txt"):
        write_file(tmp_path / name, b"")
    (tmp_path / "boomerang.txt").symlink_to("nowhere")
    monkeypatch.chdir(tmp_path)
    for pattern in ("boo*", "*", "*/*.txt", "b*/?.txt", "books/*", "[a-c]*"):
        words = subprocess.run(["sh", "-c", f"echo {pattern}"], capture_output=True, text=True, check=True)
        expanded = {file: size for word in words.stdout.split() for file, size in find_files_or_link(word).items()}
        assert find_files(pattern) == expanded, pattern


def find_files_or_link(path: str) -> dict[str, int]:
    return {path: 0} if Path(path).is_symlink() else find_files(path)


def test_a_file_stands_for_itself_also_with_brackets_in_its_name(tmp_path: Path) -> None:
    path = tmp_path / "a[1].txt"
    write_file(path, b"123")
    assert find_files(path) == {str(path): 3}


def test_a_pattern_finds_what_is_hidden_only_where_it_says_so(root: str) -> None:
    for name in ("a.txt", "._a.txt", ".cache/b.txt"):
        write_file(f"{root}/{name}", b"text")
    assert names(find_files(f"{root}/*.txt")) == names(find_files(f"{root}/**/*.txt")) == ["a.txt"]
    assert names(find_files(f"{root}/.cache/*.txt")) == ["b.txt"]


def test_what_is_no_pattern_and_nobodys_home_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="~nobody-of-this-name/a.txt does not exist"):
        find_files("~nobody-of-this-name/a.txt")
    if sys.version_info < (3, 13):  # later ones take two stars in a name for one
        with pytest.raises(UserError, match=r"a\*\*b.txt is no pattern \(Invalid pattern"):
            find_files(tmp_path / "a**b.txt")


def test_relative_patterns_stay_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_file(tmp_path / "a.txt", b"")
    monkeypatch.chdir(tmp_path)
    assert list(find_files("*.txt")) == list(find_files("a.txt")) == ["a.txt"]


def test_a_file_behind_a_url_has_one_name(tmp_path: Path) -> None:
    write_file("memory://root/a.txt", b"")
    assert find_files("memory://root") == find_files("memory://root/a.txt") == find_files("memory://root/*")


@pytest.mark.parametrize("pattern", ["zip://*.txt", "zip://", "filecache::zip://*.txt"])
def test_files_in_an_archive_are_found_and_read(tmp_path: Path, pattern: str) -> None:
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr("a.txt", "first")
    before, _, _ = pattern.rpartition("zip://")
    (found,) = find_files(f"{pattern}::file://{tmp_path}/b.zip")
    assert found == f"{before}zip://a.txt::file://{tmp_path}/b.zip"
    with open_file(found) as file:
        assert file.read() == b"first"
    assert name_in_chain(found) == "zip://a.txt"


def test_a_name_with_colons_is_no_chain(tmp_path: Path) -> None:
    assert name_in_chain(tmp_path / "a::b.txt") == str(tmp_path / "a::b.txt")
    assert name_in_chain("memory://a.txt") == "memory://a.txt"
    assert name_in_chain("simplecache::memory://a.txt") == "memory://a.txt"


def test_only_other_protocols_are_urls(tmp_path: Path) -> None:
    assert is_url("s3://bucket/a") and is_url("memory://a")
    assert not any(map(is_url, ["file:///a", "local:///a", "a/b.txt", "C:\\a", tmp_path]))


def test_local_files_do_without_fsspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    write_file(tmp_path / "a.txt", b"text")
    assert list(find_files(tmp_path).values()) == [4]
    assert fetch(f"file://{tmp_path}/a.txt") == tmp_path / "a.txt"


def test_a_write_that_fails_leaves_what_was_there_and_nothing_else(root: str, tmp_path: Path) -> None:
    path = f"{root}/a.txt"
    write_file(path, b"before")
    with pytest.raises(RuntimeError), replace_file(path) as file:
        file.write(b"half")
        raise RuntimeError
    assert list(find_files(root).values()) == [6]
    assert {file.name for file in tmp_path.iterdir()} <= {"a.txt"}


def test_a_written_file_is_as_readable_as_any_other(tmp_path: Path) -> None:
    (tmp_path / "usual").write_bytes(b"")
    write_file(tmp_path / "ours", b"")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_local_file_is_fetched_where_it_is(tmp_path: Path) -> None:
    write_file(tmp_path / "a.txt", b"text")
    assert fetch(tmp_path / "a.txt") == fetch(f"file://{tmp_path}/a.txt") == tmp_path / "a.txt"


def test_a_url_is_fetched_once_and_again_when_its_size_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITEBERT_CACHE", str(tmp_path / "cache"))
    url = "memory://root/model.bin"
    write_file(url, b"first")
    copy = fetch(url)
    assert copy.name == "model.bin" and copy.read_bytes() == b"first" and tmp_path in copy.parents
    copy.write_bytes(b"FIRST")
    assert fetch(url).read_bytes() == b"FIRST"
    write_file(url, b"second")
    assert fetch(url) == copy and copy.read_bytes() == b"second"


def test_files_of_one_name_at_two_urls_are_kept_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITEBERT_CACHE", str(tmp_path))
    write_file("memory://one/a.txt", b"one")
    write_file("memory://two/a.txt", b"two")
    assert fetch("memory://one/a.txt").read_bytes() + fetch("memory://two/a.txt").read_bytes() == b"onetwo"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("nowhere/a.txt", "nowhere/a.txt does not exist; correct the path"),
        ("memory://nowhere/a.txt", "memory://nowhere/a.txt does not exist; correct the path"),
        ("nowhere/*.txt", "no file matches nowhere/.*; correct the pattern"),
        ("memory://nowhere/*.txt", "no file matches memory://nowhere/.*; correct the pattern"),
        ("nonsense://a", "nonsense://a cannot be found .*nonsense.*; check the URL"),
        ("a\0b.txt", ".* cannot be found: no file has a name with such characters; correct it"),
        ("\ud800.txt", ".* cannot be found: no file has a name with such characters; correct it"),
    ],
)
def test_what_is_not_there_is_named(path: str, said: str) -> None:
    with pytest.raises(UserError, match=f"^{said}"):
        find_files(path)


def test_a_protocol_without_its_package_says_which_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(UserError, match="needs another package .*s3fs"):
        open_file("s3://bucket/a.txt")


def test_an_empty_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"the folder {tmp_path} holds no files; put some there"):
        find_files(tmp_path)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nowhere.txt", "does not exist; correct the path"),
        ("link.txt", "cannot be read: it is a link that leads back to itself; choose another path"),
        (300 * "x", "cannot be read: its name is too long; choose another path"),
    ],
)
def test_a_link_to_nowhere_is_found_and_named_when_it_is_opened(tmp_path: Path, target: str, said: str) -> None:
    link = tmp_path / "link.txt"
    link.symlink_to(target)
    write_file(tmp_path / "a.txt", b"text")
    for path in (tmp_path, tmp_path / "*", tmp_path / "*.txt"):
        assert find_files(path) == {str(tmp_path / "a.txt"): 4, str(link): 0}
    with pytest.raises(UserError) as error:
        open_file(link)
    assert str(error.value) == f"{link} {said}"


def test_a_folder_is_neither_read_nor_fetched(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read: it is a folder; name a file"):
        open_file(tmp_path)
    with pytest.raises(UserError, match="is not a file"):
        fetch(tmp_path)
    write_file("memory://many/a", b"")
    write_file("memory://many/b", b"")
    with pytest.raises(UserError, match="is not one file but 2; name one of them"):
        fetch("memory://many")


def test_a_folder_cannot_be_made_inside_a_file(tmp_path: Path) -> None:
    write_file(tmp_path / "a", b"")
    with pytest.raises(UserError, match="a/b cannot be written: a file stands where a folder is wanted; choose"):
        write_file(tmp_path / "a" / "b", b"")


def test_a_folder_is_no_file_to_write(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be written: it is a folder; name a file"):
        write_file(tmp_path, b"")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError(), "cannot be read: you have no permission; change that, or choose another path"),
        (OSError(errno.EPERM, "no"), "cannot be read: you have no permission; change that, or choose another path"),
        (FileNotFoundError("bucket/a.txt"), "does not exist; correct the path"),
        (OSError(errno.ENOSPC, "no"), "cannot be read: no space is left; make room, or choose another path"),
        (OSError(errno.EROFS, "no"), "cannot be read: its disk can only be read; choose another path"),
        (OSError(errno.EIO, "Input/output error"), "cannot be read: Input/output error; choose another path"),
        (OSError("the server is tired"), "cannot be read: the server is tired; choose another path"),
    ],
)
def test_what_the_system_refuses_is_said_in_a_sentence(error: OSError, said: str) -> None:
    with pytest.raises(UserError) as caught, explain("a.txt", "read"):
        raise error
    assert str(caught.value) == f"a.txt {said}"


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everywhere")
def test_a_folder_that_may_not_be_entered_is_named(tmp_path: Path) -> None:
    write_file(tmp_path / "a.txt", b"")
    (tmp_path / "closed").mkdir(mode=0)
    with pytest.raises(UserError, match="closed cannot be read: you have no permission"):
        find_files(tmp_path)


def test_a_defect_of_ours_is_not_blamed_on_a_local_file() -> None:
    with pytest.raises(ZeroDivisionError), explain("a.txt", "read"):
        raise ZeroDivisionError


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="no device is here")
def test_a_device_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/null")
    with pytest.raises(UserError, match="link is a device or the like, not a file; name a file"):
        write_file(tmp_path / "link", b"content")
    assert (tmp_path / "link").is_symlink() and not list(tmp_path.glob(".*"))
