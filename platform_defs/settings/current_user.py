"""The user who runs this process, for the ledger: from the operating system, not from a variable that users set."""

import os
import pwd


def current_user() -> str:
    """Return the user's name, or "uid NUMBER" if it has no name, as clusters assign to containers. Under sudo, also the
    user that sudo reports.
    """
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"uid {os.getuid()}"
    behind = os.environ.get("SUDO_USER")
    return f"{name} (sudo by {behind})" if behind and behind != name else name
