"""A function in a process of its own: ``python -m benchmarks.apart MODULE:NAME JSON``; see `runner.apart`.

The last line it prints is what the function returns, as JSON.
"""

import json
import resource
import sys
from importlib import import_module

if __name__ == "__main__":
    module, _, name = sys.argv[1].partition(":")
    given, named, megabytes = json.loads(sys.argv[2])
    if megabytes:
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
    print(json.dumps(getattr(import_module(f"benchmarks.{module}"), name)(*given, **named)), flush=True)
