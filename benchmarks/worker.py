"""One measurement in a process of its own: ``python -m benchmarks.worker MEASUREMENT WORKLOAD ENGINE SCALE``.

The last line it prints is the result as JSON.
"""

import json
import sys

from benchmarks import measure
from benchmarks.workload import NotSupportedError
from benchmarks.workloads import ALL


def main() -> None:
    measurement, workload, engine, scale = sys.argv[1:]
    try:
        result = getattr(measure, measurement)(ALL[workload](float(scale) if "." in scale else int(scale)), engine)
    except NotSupportedError as reason:
        result = {"skipped": str(reason) or "not supported"}
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
