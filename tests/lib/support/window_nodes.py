"""The nodes that an engine would run, and what tasks for them come to: rows, or an error."""

import tidemill as tm


class Nodes:
    """An engine that shows the nodes that it would run."""

    def start(self, plan, keep):
        del keep
        self.nodes = plan.taking(frozenset()).after().nodes


def outcome(run, batches):
    try:
        return sorted(map(repr, (row for b in run(iter(batches)) for row in b.to_pylist())))
    except tm.errors.TidemillError as error:
        return str(error)
