"""Runs that survive their process, and state that is larger than memory, beneath the embedded engine and Spark.

`start` puts together what such a run is made of. `recorder` writes steps down before they count as taken: in the folder
that `step_log` keeps (`log_reading`, `frames`, `segment`, `last_commit`, `lock`), with what the `journal`
holds of what was put in, and the `changelog` files. `spill_store` bounds what is in memory; `spilled`
is what lies below spines, in the files of `spill_files`, every byte of which is under `checksums`; `file_work`
says who sorts, merges and checks these. `large_changes` are queued in files, not in memory.
"""
