"""The main job, ``tidemill demo``: New York's flights of 2013, joined, summed up and followed from delay to delay.

``flow.py`` is the dataflow; ``script.py`` says what happens to its inputs, ``play.py`` plays that, ``sql.py`` and
``check.py`` compute everything a second and a third time, and ``report.py`` shows it.
"""
