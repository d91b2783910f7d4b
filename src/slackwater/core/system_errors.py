"""System errors: refusals of the operating system, also where a failure of ours was raised from one.

No free descriptor, a full disk, a disk that cannot be read: such a refusal may be over the next time. Background work
reports it and tries again, where another failure is a fault of the program or of the data.
"""


def system_error(error: BaseException | None) -> OSError | None:
    """The refusal that a failure goes back to; None where there is another reason for it.

    >>> system_error(ValueError("no number")) is None
    True
    >>> try:
    ...     try:
    ...         open("/nowhere/at/all")
    ...     except OSError as cause:
    ...         raise ValueError("no file") from cause
    ... except ValueError as failure:
    ...     system_error(failure).strerror
    'No such file or directory'
    """
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__
    return error
