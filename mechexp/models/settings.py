"""What is asked of a model, checked and hashable: equal settings are the same model."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from mechexp.errors import UserError
from mechexp.paths import conf_dir

DTYPES = ("float32", "bfloat16", "float16")
ATTENTION = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")


@dataclass(frozen=True)
class ModelSettings:
    """The fields of ``mechexp.config.ModelConfig`` with the same defaults, frozen.

    ``checkpoints`` and ``options`` are JSON text, so that settings can be compared and hashed.
    """

    name: str
    source: str = "hub"
    id: str = ""
    revision: str = ""
    path: str = ""
    package: str = ""
    file: str = ""
    dtype: str = "float32"
    device: str = "auto"
    device_map: str = ""
    attn_implementation: str = "eager"
    trust_remote_code: bool = False
    screen_length: int = 256
    checkpoints: str = field(default="{}")
    options: str = field(default="{}")

    @property
    def where(self) -> str:
        """How an error message names the model."""
        return f"model {self.name}"


SETTINGS = tuple(f.name for f in fields(ModelSettings))


def from_config(cfg: Any) -> ModelSettings:
    """Settings from anything that has the attributes of ``ModelConfig``.

    Raises:
        UserError: A value that cannot be; names the key and what it may be.
    """
    values = {name: getattr(cfg, name) for name in SETTINGS}
    for name in ("checkpoints", "options"):
        values[name] = json.dumps(dict(values[name] or {}), sort_keys=True, default=str)
    values["revision"] = str(values["revision"] or "")
    settings = ModelSettings(**values)
    _check(settings)
    return settings


def from_name(name_or_path: str | Path, **overrides: Any) -> ModelSettings:
    """Settings of a name in ``conf/model``, a folder, or a hub id.

    Raises:
        UserError: No such name, or an override that is not a setting.
    """
    unknown = sorted(set(overrides) - set(SETTINGS))
    if unknown:
        raise UserError(f"no model setting {', '.join(unknown)}", expected=f"one of {', '.join(SETTINGS)}")
    values = _defaults() | _named(str(name_or_path)) | overrides
    return from_config(_Values(values))


def known_names() -> list[str]:
    """Names of the model files in ``conf/model``."""
    return sorted(p.stem for p in (conf_dir() / "model").glob("*.yaml"))


class _Values:
    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update(values)


def _defaults() -> dict[str, Any]:
    values = {f.name: f.default for f in fields(ModelSettings) if f.name != "name"}
    return values | {"checkpoints": {}, "options": {}}


def _named(name: str) -> dict[str, Any]:
    import yaml

    if name in known_names():
        values: dict[str, Any] = yaml.safe_load((conf_dir() / "model" / f"{name}.yaml").read_text())
        return values
    folder = Path(name).expanduser()
    if folder.is_dir():
        return {"name": folder.resolve().name, "source": "local", "path": str(folder)}
    if name.count("/") == 1 and not name.startswith((".", "/", "~")):
        return {"name": name.split("/")[1], "source": "hub", "id": name}
    raise UserError(
        f"no model {name!r}",
        expected=f"one of {', '.join(known_names())}; a folder; or a hub id owner/name",
    )


def _check(settings: ModelSettings) -> None:
    for key, allowed in (("dtype", DTYPES), ("attn_implementation", ATTENTION)):
        value = getattr(settings, key)
        if value not in allowed:
            raise UserError(
                f"model.{key}={value}", where=settings.where, expected=f"one of {', '.join(allowed)}"
            )
    if settings.screen_length < 16:
        raise UserError(
            f"model.screen_length={settings.screen_length}",
            where=settings.where,
            expected="at least 16 tokens",
        )
    if settings.device_map and settings.device != "auto":
        raise UserError(
            f"model.device={settings.device} beside model.device_map={settings.device_map}",
            where=settings.where,
            expected="one of the two: the map places the model",
        )
