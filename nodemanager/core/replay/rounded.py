"""Round values, as people write them: what is tried, and what is advised."""

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
ROUND_S = (
    *(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0),
    *(MINUTE * n for n in (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 25, 30, 35, 40, 45, 50)),
    *(HOUR * n for n in (1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10, 12, 15, 18, 21)),
    *(DAY * n for n in (1, 1.5, 2, 3, 4, 5, 7, 10, 14, 21, 30)),
)
"""Round durations, as people write them."""


def at_least(seconds: float) -> float:
    """The next round duration, not below it; the same where none is so long."""
    return next((one for one in ROUND_S if one >= seconds), seconds)


def at_most(seconds: float) -> float:
    """The last round duration, not above it; the same where none is so short."""
    return max((one for one in ROUND_S if one <= seconds), default=seconds)


def duration(seconds: float) -> str:
    """The duration in the configuration's form: `5m`, `90m`, `2h`, `45s`."""
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "m")):
        many = seconds / unit
        if many >= 1 and many == int(many) and (unit < DAY or many >= 2):
            return f"{int(many)}{name}"
    return f"{seconds:g}s"
