"""Passage for one other user through folders closed to others, by an entry in their access lists (POSIX ACLs).

Postgres refuses to run as root, so it runs as its own user, which has to pass the folders above its programs and its
data. Their modes stay: no other user gets in, and that user may pass, but not list. The standard library has no ACLs,
and `setfacl` is not installed everywhere; Linux keeps them in an attribute of the file.
https://man7.org/linux/man-pages/man5/acl.5.html, include/uapi/linux/posix_acl_xattr.h in Linux

A file system may lack them (ZFS by default, network drives, mounts from another system in a container): then the user's
own group gets the passage.
"""

import errno
import grp
import os
import pwd
import stat
import struct
from pathlib import Path

_ATTRIBUTE = "system.posix_acl_access"
_VERSION, _ENTRY = struct.Struct("<I"), struct.Struct("<HHI")  # tag, permissions, id
_USER_OBJ, _USER, _GROUP_OBJ, _GROUP, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
_NOBODY = 0xFFFFFFFF  # the id of an entry that has none
_PASS = 0b001

Entry = tuple[int, int, int]


def let_pass(folder: Path, user: int) -> None:
    """Let the user of this id through every folder above `folder`. Raises OSError if one has no access list, and its
    group must not change.
    """
    for parent in folder.resolve().parents:
        if not parent.stat().st_mode & stat.S_IXOTH:
            try:
                _grant(parent, user)
            except OSError as error:
                if error.errno != errno.EOPNOTSUPP or not _pass_by_group(parent, user):
                    raise


def _pass_by_group(folder: Path, user: int) -> bool:
    """Let the user's own group through, in place of one that may do nothing else. Return True if that worked."""
    found, account = folder.stat(), pwd.getpwuid(user)
    if grp.getgrgid(account.pw_gid).gr_name != account.pw_name or found.st_mode & (stat.S_IRGRP | stat.S_IWGRP):
        return False
    os.chown(folder, -1, account.pw_gid)
    folder.chmod(stat.S_IMODE(found.st_mode) | stat.S_IXGRP)
    return True


def _grant(folder: Path, user: int) -> None:
    entries = _entries(folder)
    mine = next((held for tag, held, of in entries if tag == _USER and of == user), None)
    mask = next((held for tag, held, _ in entries if tag == _MASK), 0)
    if mine is not None and mine & mask & _PASS:
        return
    group = next(held for tag, held, _ in entries if tag == _GROUP_OBJ)
    others = [one for one in entries if one[0] != _MASK and one[::2] != (_USER, user)]
    limits = (_MASK, (mask or group) | _PASS, _NOBODY)
    granted = sorted([*others, (_USER, (mine or 0) | _PASS, user), limits])
    os.setxattr(folder, _ATTRIBUTE, _VERSION.pack(2) + b"".join(_ENTRY.pack(*one) for one in granted))


def _entries(folder: Path) -> list[Entry]:
    """Return the folder's access list; if it has none, the entries of its mode."""
    try:
        raw = os.getxattr(folder, _ATTRIBUTE)
    except OSError as error:
        if error.errno != errno.ENODATA:
            raise
        mode = folder.stat().st_mode
        return [(_USER_OBJ, mode >> 6 & 7, _NOBODY), (_GROUP_OBJ, mode >> 3 & 7, _NOBODY), (_OTHER, mode & 7, _NOBODY)]
    return [(tag, held, of) for tag, held, of in _ENTRY.iter_unpack(raw[_VERSION.size :])]
