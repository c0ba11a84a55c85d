"""`DeviceFailed`: a GPU that gave up under a computation. No row is to blame for it, and no process gets it back."""

from __future__ import annotations

_SIGNS = (
    "cuda error",
    "hip error",
    "no cuda-capable device",
    "cuda driver",
    "cudnn_status",
    "cublas_status",
    "mps backend",
)
_NOT = ("out of memory", "not compiled with")  # a batch that is too large fails alone; a build without CUDA never works


class DeviceFailed(BaseException):
    """Not an `Exception`: what makes a Failure row of an error must let it pass."""


def device_failure(error: BaseException) -> str:
    """What a device said when it failed, in one line; empty where an error is of another kind."""
    text = " ".join(str(error).split())
    lower = text.lower()
    if isinstance(error, DeviceFailed):
        return text
    failed = any(sign in lower for sign in _SIGNS) and not any(sign in lower for sign in _NOT)
    return f"its device failed ({text[:200]})" if failed else ""


def reraise_device_failure(error: Exception) -> None:
    if reason := device_failure(error):
        raise DeviceFailed(reason) from error
