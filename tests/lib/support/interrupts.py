"""Ctrl-C at a chosen instruction: wherever a signal may be noticed, be it in Python's own modules.

Python looks for signals as a function begins, behind calls of functions in C, and where a loop begins anew. An
exception at other instructions, such as those that end a handler, would leave Python itself in disorder.
"""

from __future__ import annotations

import _weakrefset
import contextlib
import gc
import opcode
import signal
import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["interrupted", "instructions"]

_FINALIZERS = {weakref.__file__, _weakrefset.__file__}
_LOOKS = {"RESUME", "CALL", "CALL_KW", "CALL_FUNCTION_EX"}


class _Tracer:
    def __init__(self, at: int) -> None:
        self.left = at
        self.where: str | None = None

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.left -= 1
            if self.left <= 0 and self.where is None and _is_looked_at(frame) and not _is_finalizing(frame):
                self.where = f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}"
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return self


def _is_looked_at(frame: FrameType) -> bool:
    """Return whether Python looks for signals before, or right after, the instruction at hand."""
    code, at = frame.f_code.co_code, frame.f_lasti
    if opcode.opname[code[at]] == "JUMP_BACKWARD":
        return True
    at -= 2
    while at > 0 and opcode.opname[code[at]] == "CACHE":
        at -= 2
    return at >= 0 and opcode.opname[code[at]] in _LOOKS


def _is_finalizing(frame: FrameType | None) -> bool:
    """Return whether Python lets go of an object, or tells that it does, where it has nobody to raise anything to."""
    told = {getattr(callback, "__code__", None) for callback in gc.callbacks}  # Hypothesis counts the collector's time
    while frame is not None:
        if frame.f_code.co_name == "__del__" or frame.f_code.co_filename in _FINALIZERS or frame.f_code in told:
            return True
        frame = frame.f_back
    return False


def interrupted(do: Callable[[], object], at: int) -> tuple[str | None, BaseException | None]:
    """Call a function, and interrupt it at its instruction of this number, or soon after; return where, and what it raised."""
    tracer = _Tracer(at)
    error: BaseException | None = None
    before = sys.gettrace()
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # as a job in the background it may be ignored
    sys.settrace(tracer)
    try:
        do()
    except BaseException as found:  # noqa: BLE001 - whatever becomes of the interrupt
        error = found
    finally:
        sys.settrace(before)
        signal.signal(signal.SIGINT, handler)
    try:
        return tracer.where, error
    finally:
        del error  # which holds this function's variables: what it holds is to go as soon as nobody has it


def instructions(do: Callable[[], object]) -> int:
    """Return how many instructions a function takes."""
    tracer = _Tracer(sys.maxsize)
    before = sys.gettrace()
    with contextlib.ExitStack() as stack:
        stack.callback(sys.settrace, before)
        sys.settrace(tracer)
        do()
    return sys.maxsize - tracer.left
