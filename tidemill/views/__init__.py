"""Views over tables: sources that know versions, one durable run, and sinks that know refreshes.

A refresh fixes the version of every source (`journal`), delivers what changed since the last one to the run in one
step, and has each view's sink take what the step changed (`writing`). Each part knows what it has done, so a refresh
that was cut off is gone on with, and nothing is lost or written twice.
"""
