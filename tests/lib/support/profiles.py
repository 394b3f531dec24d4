"""How many examples Hypothesis draws where a test says nothing; those that do are scaled with it (`running.examples`).

Choose with `HYPOTHESIS_PROFILE=ci` or `--hypothesis-profile=ci`. `landing` draws the same cases each time, so that a
change is judged by what it changes; new cases are drawn by all others.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

for name, max_examples in {"dev": 5, "landing": 6, "ci": 30, "long": 600}.items():
    settings.register_profile(
        name,
        max_examples=max_examples,
        derandomize=name == "landing",
        deadline=None,  # two slow seconds on a shared machine are no bug
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))
