"""Who runs this process, for the ledger: what the operating system says, and not a variable, which anybody sets."""

import os
import pwd


def current_user() -> str:
    """The user's name; their number where it has no name, as a cluster gives users to its containers. Behind sudo also
    who that says it was.
    """
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"uid {os.getuid()}"
    behind = os.environ.get("SUDO_USER")
    return f"{name} (sudo by {behind})" if behind and behind != name else name
