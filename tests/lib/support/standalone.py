"""A standalone Spark cluster on this machine: a master and workers, each a process, of PySpark's own distribution."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark

from tidemill.renderer.spark.java import java_home

HOST = "127.0.0.1"


class Cluster:
    """A master and as many workers as are started, of one core each. What they write lies in a folder."""

    def __init__(self, folder: Path, environment: Mapping[str, str] = {}) -> None:
        self.folder = folder
        home = java_home()
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))},
            **({} if home is None else {"JAVA_HOME": home}),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            **environment,
        }
        self.master, self.port = self._start_master()
        self.url = f"spark://{HOST}:{self.port}"
        self.workers: list[subprocess.Popen[bytes]] = []

    def _start_master(self) -> tuple[subprocess.Popen[bytes], int]:
        for _ in range(5):  # somebody else may take a free port first
            port = free_port()
            process = self._start("master.Master", "--host", HOST, "--port", str(port), "--webui-port", "0")
            until = time.monotonic() + 120
            while process.poll() is None and time.monotonic() < until:
                with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1):
                    return process, port
                time.sleep(0.1)
            process.kill()
        msg = "no master of Spark's started"
        raise RuntimeError(msg)

    def start_worker(self) -> None:
        """Start a worker more."""
        place = self.folder / f"worker-{len(self.workers)}-{time.time_ns()}"
        limits = ("--host", HOST, "--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(place))
        self.workers.append(self._start("worker.Worker", *limits, self.url))

    def _start(self, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        script = Path(self._environment["SPARK_HOME"], "bin", "spark-class")
        with (self.folder / f"{kind.lower()}.log").open("ab") as log:
            return subprocess.Popen(
                [str(script), f"org.apache.spark.deploy.{kind}", *arguments],
                env=self._environment, stdout=log, stderr=log, cwd=self.folder,
            )  # fmt: skip

    def executors(self) -> list[int]:
        """Return the processes that are executors of this cluster."""
        found = []
        for place in Path("/proc").iterdir():
            if place.name.isdigit():
                with contextlib.suppress(OSError):
                    line = (place / "cmdline").read_bytes()
                    if b"CoarseGrainedExecutorBackend" in line and str(self.folder).encode() in _works_in(place):
                        found.append(int(place.name))
        return found

    def stop(self) -> None:
        """End all processes of it."""
        for process in (*self.workers, self.master):
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
        for executor in self.executors():
            with contextlib.suppress(ProcessLookupError):
                os.kill(executor, signal.SIGKILL)


@contextlib.contextmanager
def cluster(folder: Path, workers: int = 2, environment: Mapping[str, str] = {}) -> Iterator[Cluster]:
    """Within the block there is a cluster."""
    made = Cluster(folder, environment)
    try:
        for _ in range(workers):
            made.start_worker()
        yield made
    finally:
        made.stop()


def free_port() -> int:
    """Return a port on which nobody listens."""
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])


def _works_in(place: Path) -> bytes:
    return bytes((place / "cwd").readlink())
