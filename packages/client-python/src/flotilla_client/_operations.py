"""How far writes are."""

from __future__ import annotations

from . import _memory_requests as requests
from ._core import Core
from .errors import own_error
from .memory_models import Accepted, Operation

_POLL_LEAST, _POLL_MOST = 0.05, 1.0


class AsyncOperations:
    """Writes that the log has accepted."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def operation(self, operation_id: str) -> Operation:
        """How far a write is."""
        return await self._core.call(requests.OPERATION.request(parts={"operation_id": operation_id}))

    async def wait_for(self, operation: str | Accepted, *, timeout: float = 60.0) -> Operation:  # noqa: ASYNC109
        """Returns once the operation is applied or failed. Raises NoAnswerInTime after ``timeout`` seconds."""
        operation_id = operation if isinstance(operation, str) else operation.operation_id
        engine = self._core.engine
        end = engine.now() + timeout
        pause = _POLL_LEAST
        while True:
            state = await self.operation(operation_id)
            if state.status != "accepted":
                return state
            if engine.now() + pause > end:
                raise own_error("timeout", f"the operation was not applied within {timeout:g} s")
            await engine.sleep(pause)
            pause = min(_POLL_MOST, pause * 1.5)
