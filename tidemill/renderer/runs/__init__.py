"""What users hold, whichever engine is behind it: the one `Run`.

`run` checks names and delegates: `intake` checks what is put in, `frontiers` knows where the inputs and outputs are,
`stepper` takes steps, `lifecycle` sees that they are whole. `executor` says what a run is made of, `engine` what
``flow.start`` takes. What goes in: `queued`, `writes`, `deliveries`; what comes out: `metrics`, `step_info`, and the
`progress` of long steps. `failures`, `user_functions` and `determinism` are what engines share.
"""
