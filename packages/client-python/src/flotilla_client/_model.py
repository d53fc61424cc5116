"""What all answers have in common: read leniently, so that a newer platform is no fault."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

JsonObject = dict[str, Any]


class Model(BaseModel):
    """An answer. Fields of a newer platform are kept as attributes."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)


class CamelModel(Model):
    """An answer whose names are in camelCase as they travel."""

    model_config = ConfigDict(alias_generator=to_camel)
