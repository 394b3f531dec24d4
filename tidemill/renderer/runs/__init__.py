"""What users hold, whichever engine is behind it: the one `Run`.

`run` looks up names and delegates: `intake` checks what is put in, `stepper` queues it; `frontiers` makes the `Move` of
an advance, which the stepper takes, and `lifecycle` sees that steps are whole. `executor` says what a run is made of.
What goes in: `writes`; what comes out: `metrics`, `step_events`, and the `progress` of long steps. `failures`,
`user_functions` and `determinism` are what engines share.
"""
