"""Round values, as people write them: what is tried, and what is advised."""

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
ROUND_S = (
    *(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0),
    *(MINUTE * n for n in (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 25, 30, 35, 40, 45, 50)),
    *(HOUR * n for n in (1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10, 12, 15, 18, 21)),
    *(DAY * n for n in (1, 1.5, 2, 3, 4, 5, 7, 10, 14, 21, 30)),
)
"""Round durations, as people write them."""
