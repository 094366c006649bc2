"""TIDEGATE_HOME is its owner's alone, and no folder above it is opened for the sake of the embedded Postgres."""

import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from platform_defs.errors import BadInput
from platform_defs.settings.home import private_home
from platform_defs.stack import postgres_server as postgres
from platform_defs.stack import processes
from platform_defs.stack.folder_access import let_pass

ROOT = os.geteuid() == 0


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_home_is_closed_to_others(tmp_path: Path) -> None:
    assert mode_of(private_home(tmp_path / "a" / "home")) == 0o700


@pytest.mark.parametrize("mine", ["spark", "contracts"])
def test_a_folder_with_something_of_its_user_is_not_marked_as_tidegates(tmp_path: Path, mine: str) -> None:
    (tmp_path / mine).mkdir()
    private_home(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == [mine], "tidegate stack reset may not delete it"


@pytest.mark.parametrize("wide", [0o755, 0o777, 0o750, 0o701])
def test_an_open_home_is_narrowed(tmp_path: Path, wide: int) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(wide)
    assert mode_of(private_home(home)) & 0o067 == 0
    assert ROOT or mode_of(home) == 0o700


def test_a_folder_that_everybody_shares_is_not_closed_to_them(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "of somebody").touch()
    with pytest.raises(BadInput, match=r"TIDEGATE_HOME.*such as .*shared/tidegate"):
        private_home(shared)
    assert mode_of(shared) == 0o1777
    (shared / "of somebody").unlink()
    assert mode_of(private_home(shared)) & 0o1067 == 0  # a new one, as Docker mounts it (--tmpfs)


def test_what_a_started_server_writes_is_its_users_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "open('data', 'w').close(); import os; os.mkdir('folder'); print('x')"]
    processes.start(command, tmp_path / "log", cwd=tmp_path).wait(30)
    found = {name: mode_of(tmp_path / name) & 0o077 for name in ("log", "data", "folder")}
    assert found == {"log": 0, "data": 0, "folder": 0}


@pytest.fixture
def closed() -> Iterator[Path]:
    """Yield a folder of root's as /root is, with one in it."""
    with _closed(Path(tempfile.mkdtemp(dir="/var/tmp"))) as folder:  # every user may pass here
        yield folder


@pytest.fixture
def listless() -> Iterator[Path]:
    """Yield the same on a file system that has no access lists."""
    mounted = Path(tempfile.mkdtemp(dir="/var/tmp"))
    mounted.chmod(0o755)
    if subprocess.run(["mount", "-t", "ramfs", "ramfs", mounted], capture_output=True).returncode:
        mounted.rmdir()
        pytest.skip("nothing may be mounted here")
    try:
        with _closed(mounted / "closed") as folder:
            yield folder
    finally:
        subprocess.run(["umount", mounted], check=True)
        mounted.rmdir()


@contextmanager
def _closed(folder: Path) -> Generator[Path]:
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "inner").mkdir(mode=0o700)
    (folder / "inner" / "data").mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder)


def may(what: str, path: Path, of: pwd.struct_passwd) -> bool:
    done = subprocess.run([*what.split(), path], user=of.pw_uid, group=of.pw_gid, extra_groups=[], capture_output=True)
    return done.returncode == 0


@pytest.mark.skipif(not ROOT, reason="only root needs another user")
def test_one_user_may_pass_a_closed_folder_and_nobody_else(closed: Path) -> None:
    postgres._create_system_user_once()  # pyright: ignore[reportPrivateUsage]  # the user of the embedded Postgres
    user = pwd.getpwnam(postgres.SYSTEM_USER)
    data, nobody = closed / "inner" / "data", pwd.getpwnam("nobody")
    assert not may("ls", data, user)
    for _ in range(2):  # again changes nothing
        let_pass(data, user.pw_uid)
        assert may("ls", data, user)
        assert not may("ls", closed, user)  # it passes, and lists nothing
        assert not may("ls", data, nobody)
        assert mode_of(closed) & 0o007 == 0
    let_pass(data, nobody.pw_uid)  # an entry beside the first
    assert may("ls", data, nobody)
    assert may("ls", data, user)


@pytest.mark.skipif(not ROOT, reason="only root needs another user, and may mount")
def test_without_access_lists_the_users_own_group_passes(listless: Path) -> None:
    postgres._create_system_user_once()  # pyright: ignore[reportPrivateUsage]  # the user of the embedded Postgres
    user, nobody, data = pwd.getpwnam(postgres.SYSTEM_USER), pwd.getpwnam("nobody"), listless / "inner" / "data"
    for _ in range(2):  # again changes nothing
        let_pass(data, user.pw_uid)
        assert may("ls", data, user)
        assert not may("ls", listless, user)
        assert not may("ls", data, nobody)
    assert may("ls", private_home(listless / "inner") / "data", user)  # closing it again keeps the way open
    listless.chmod(0o750)  # members of its group would lose their rights
    os.chown(listless, -1, 0)
    with pytest.raises(OSError, match="not supported"):
        let_pass(data, user.pw_uid)
