"""Faults of calls: problem documents of the platform (RFC 9457) as exceptions that callers match by ``code``."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from pydantic_core import from_json

if TYPE_CHECKING:
    from .run_models import Run


@dataclass(frozen=True, slots=True)
class FieldError:
    """One fault of a request: where it is, as a JSON pointer or a dotted path, and the reason."""

    path: str
    message: str


class FlotillaError(Exception):
    """Raised for every answer that is not a success. ``code`` is stable: match on it.

    Without an answer ``status`` is 0 and ``code`` one of ``no_answer`` (the connection failed), ``timeout``, ``closed``
    (the client was closed), ``stream_ended``, ``invalid_answer`` (a success that is not what the platform sends) and
    ``no_credential``.

    Attributes:
        code: Names the fault, in snake_case.
        status: The HTTP status, or 0.
        detail: A sentence for people.
        retry_after: Seconds after which trying again helps, where the platform says so.
        errors: The faulty fields of a request that was refused as a whole.
        request_id: Names the request in the platform's own log.
        members: Every member of the problem document, also those of one code alone.
        attempts: How often the client sent the request.

    """

    def __init__(
        self,
        code: str,
        status: int,
        detail: str,
        *,
        retry_after: float | None = None,
        errors: tuple[FieldError, ...] = (),
        request_id: str | None = None,
        members: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.status = status
        self.detail = detail
        self.retry_after = retry_after
        self.errors = errors
        self.request_id = request_id
        self.members: Mapping[str, Any] = MappingProxyType(dict(members or {}))
        self.attempts = 1

    def __str__(self) -> str:
        """The code, the sentence, and where the faults of a refused request are."""
        where = "".join(f"; {error.path}: {error.message}" for error in self.errors[:5])
        return f"{self.code}: {self.detail}{where}"

    def again(self) -> Self:
        """The same fault for another caller: an exception that several raise would mix their tracebacks."""
        other = copy.copy(self)
        other.__traceback__ = None
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        """For process pools: a fault crosses processes by its fields."""
        return _rebuilt, (type(self), {**self.__dict__, "members": dict(self.members)})


def _rebuilt(kind: type[FlotillaError], fields: dict[str, Any]) -> FlotillaError:
    fault = kind.__new__(kind)
    fault.__dict__.update(fields)
    fault.args = (f"{fields['code']}: {fields['detail']}",)
    return fault


class NoAnswer(FlotillaError):
    """The connection failed, or the client was closed, before an answer came."""


class NoAnswerInTime(NoAnswer):
    """No answer within ``timeout`` seconds (``code`` is ``timeout``)."""


class BadRequest(FlotillaError):
    """400: for example ``invalid_filter`` or ``unknown_target``."""


class Unauthorized(FlotillaError):
    """401: the credential is missing, wrong, expired or revoked."""


class Forbidden(FlotillaError):
    """403: the credential is good, and its access does not suffice."""


class NotFound(FlotillaError):
    """404: for example ``point_not_found`` or ``agent_not_found``."""


class Conflict(FlotillaError):
    """409: for example ``collection_exists`` or ``invalid_transition``."""


class PreconditionFailed(FlotillaError):
    """412: the record was changed since its ``etag`` was read."""


class TooLarge(FlotillaError):
    """413: the body is larger than the route takes."""


class Invalid(FlotillaError):
    """422: ``errors`` names the faulty fields."""


class RateLimited(FlotillaError):
    """429: ``rate_limited``, ``too_many_concurrent``, ``quota_exceeded`` or ``backlog_full``."""


class ServerFault(FlotillaError):
    """500 and above."""


class Unavailable(ServerFault):
    """503: the platform or one of its engines is away for a while."""


class RunFailed(FlotillaError):
    """A run that ended without success: ``run`` holds it, ``code`` is the run's own, or ``run_canceled``."""

    run: Run


_kinds: dict[int, type[FlotillaError]] = {
    0: NoAnswer,
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: PreconditionFailed,
    413: TooLarge,
    422: Invalid,
    429: RateLimited,
    503: Unavailable,
}


def error_of_answer(status: int, headers: Mapping[str, str], body: bytes) -> FlotillaError:
    """The fault of an answer that is not 2xx, also when a proxy in between wrote it."""
    problem = _object(body)
    code, detail, wait = problem.get("code"), problem.get("detail"), problem.get("retryAfter")
    if not isinstance(detail, str):
        detail = _message_of_identity_toolkit(problem) or f"the answer was {status}"
    if isinstance(wait, bool) or not isinstance(wait, (int, float)):
        wait = _number(headers.get("retry-after"))
    kind = _kinds.get(status, ServerFault if status >= 500 else FlotillaError)
    return kind(
        code if isinstance(code, str) else f"http_{status}",
        status,
        detail,
        retry_after=wait,
        errors=tuple(_field_errors(problem.get("errors"))),
        request_id=headers.get("x-request-id"),
        members=problem,
    )


def own_error(code: str, detail: str) -> FlotillaError:
    """A fault that no server answered."""
    kind = {"timeout": NoAnswerInTime, "no_answer": NoAnswer, "closed": NoAnswer}.get(code, FlotillaError)
    return kind(code, 0, detail)


def is_away(error: FlotillaError) -> bool:
    """Whether the service was away, so that trying again helps.

    It said so, gave no answer, or a proxy in front of it had none (502 and above without a code of the platform).
    """
    if error.status == 0:
        return error.code in ("no_answer", "timeout")
    if error.code == "mirror_off":  # A setting has switched it off: waiting does not help.
        return False
    return error.status == 503 or (error.status >= 502 and error.code == f"http_{error.status}")


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = from_json(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _field_errors(given: object) -> list[FieldError]:
    listed = given if isinstance(given, list) else []
    return [
        FieldError(str(one.get("path", "")), str(one.get("message", ""))) for one in listed if isinstance(one, dict)
    ]


def _message_of_identity_toolkit(problem: dict[str, Any]) -> str | None:
    """Identity providers that speak Google's Identity Toolkit answer ``{"error": {"message": …}}``."""
    error = problem.get("error")
    message = error.get("message") if isinstance(error, dict) else None
    return message if isinstance(message, str) else None


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None
