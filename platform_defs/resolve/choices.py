"""The choices that a user has in resolving a halt, where there is more than one."""

from typing import Literal

ResumeAt = Literal["beginning", "end", "cut", "position"]  # in a new log, or in one that was truncated
BatchChoice = Literal["retry", "publish", "dead-letters"]  # for a batch that fails a blocking check
