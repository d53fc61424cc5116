"""Verifies that a webhook request was sent by a holder of the signing secret (Standard Webhooks)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

Headers = Mapping[str, str] | Iterable[tuple[str, str]]
RefusalReason = Literal[
    "missing_header", "invalid_header", "timestamp_out_of_tolerance", "invalid_signature", "invalid_body"
]

# A request carries one signature per secret of the sender.
_SIGNATURES_MAX = 16
# 503 for the time: a clock that is wrong for a moment loses nothing, since the sender tries again.
_STATUSES: dict[str, int] = {"invalid_signature": 401, "timestamp_out_of_tolerance": 503}


class WebhookRefused(Exception):
    """The request is not what it claims to be; ``status`` is the HTTP answer that it deserves."""

    def __init__(self, reason: RefusalReason, message: str) -> None:
        super().__init__(message)
        self.reason: RefusalReason = reason
        self.status = _STATUSES.get(reason, 400)


@dataclass(frozen=True)
class Signed:
    """The id and the time that were signed."""

    id: str
    timestamp: datetime


def verify_webhook(
    headers: Headers,
    body: bytes,
    *,
    secrets: Sequence[str],
    tolerance: float = 300.0,
    now: Callable[[], float] = time.time,
) -> Signed:
    """Checks the v1 signature (HMAC-SHA256 over `id.timestamp.body`) on the bytes as they came.

    Args:
        headers: Of the request; names in any case.
        body: The raw body: the signature covers its bytes.
        secrets: `whsec_…` or the base64 behind it; during a rotation the old and the new one.
        tolerance: How far the sender's clock may be away, in seconds, either way.
        now: Seconds since 1970.

    Raises:
        WebhookRefused: The request is not signed by a holder of a secret, or not now.
        ValueError: A secret is none.

    """
    keys = check_secrets(secrets)
    signed_id = required_header(headers, "webhook-id")
    # In the signed text a dot follows the id: an id that holds a dot could be read in two ways.
    if not re.fullmatch(r"[!-~]{1,256}", signed_id) or "." in signed_id:
        raise WebhookRefused("invalid_header", "webhook-id is no id")
    seconds = required_header(headers, "webhook-timestamp")
    if not re.fullmatch(r"[0-9]{1,12}", seconds):
        raise WebhookRefused("invalid_header", "webhook-timestamp is no time")
    given = _signatures_of(required_header(headers, "webhook-signature"))
    text = f"{signed_id}.{seconds}.".encode() + body
    expected = [hmac.new(key, text, hashlib.sha256).digest() for key in keys]
    # Every pair is compared, so that the time says nothing of which one matched.
    if sum(hmac.compare_digest(one, other) for one in expected for other in given) == 0:
        raise WebhookRefused("invalid_signature", "no secret made any of the signatures")
    if abs(now() - int(seconds)) > tolerance:
        raise WebhookRefused("timestamp_out_of_tolerance", "it was signed too long ago, or in the future")
    return Signed(signed_id, datetime.fromtimestamp(int(seconds), UTC))


def header_of(headers: Headers, name: str) -> str | None:
    """The value of a header, whatever the case of its name; None when it is absent, empty or there twice."""
    listed = headers.items() if isinstance(headers, Mapping) else headers
    values = [value for key, value in listed if key.lower() == name]
    return values[0] if len(values) == 1 and values[0] != "" else None


def required_header(headers: Headers, name: str) -> str:
    """The value of a header that must be there. Raises WebhookRefused."""
    value = header_of(headers, name)
    if value is None:
        raise WebhookRefused("missing_header", f"the header {name} is missing")
    return value


def check_secrets(secrets: Sequence[str]) -> list[bytes]:
    """The keys behind the secrets. Raises ValueError when one is no secret, or none is given."""
    if isinstance(secrets, str) or not secrets:
        raise ValueError("give a list of at least one secret")
    return [_key_of(secret) for secret in secrets]


def _key_of(secret: str) -> bytes:
    text = secret.removeprefix("whsec_").rstrip("=")
    is_base64 = re.fullmatch(r"[A-Za-z0-9+/_-]+", text) is not None
    key = _decoded(text.replace("-", "+").replace("_", "/")) if is_base64 else b""
    if len(key) < 16:
        raise ValueError("a secret is whsec_ and the base64 of at least 16 bytes")
    return key


def _signatures_of(header: str) -> list[bytes]:
    """The v1 signatures of the list; others (v1a) are for other keys."""
    listed = header.split(" ")[:_SIGNATURES_MAX]
    decoded = [_decoded(one.removeprefix("v1,").rstrip("=")) for one in listed if one.startswith("v1,")]
    return [signature for signature in decoded if len(signature) == 32]


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""
