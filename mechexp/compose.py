"""The configuration without Hydra: the same files and the same schema, for notebooks and scripts."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from mechexp.errors import UserError
from mechexp.paths import conf_dir
from mechexp.schema import Config, validate, without_file
from mechexp.tasks import TASKS

_SCHEMA = "/schema/"


def compose(
    choices: Mapping[str, str], options: Mapping[str, Any] | None = None, folders: Sequence[Path] = ()
) -> Config:
    """Compose and check the configuration of one cell.

    Args:
        choices: A choice for any config group, as ``model=…`` on the command line; the rest as there.
        options: Single values by their dotted name, such as ``{"task.n": 64}``.
        folders: Config folders of the user's own, looked at before mechexp's (``--config-dir``).

    Raises:
        UserError: No such group, choice or option, or a value that cannot be.
    """
    places = [*folders, conf_dir()]
    root = _read(conf_dir() / "config.yaml")
    groups = dict(_defaults(root))
    unknown = sorted(set(choices) - set(groups))
    if unknown:
        raise UserError(f"no config group {unknown[0]!r}", expected=f"one of {', '.join(groups)}")
    cfg = OmegaConf.structured(Config)
    for group, choice in {**groups, **choices}.items():
        path = _find(places, group, choice)
        if path is None:
            cfg[group] = OmegaConf.structured(without_file()[group, choice])
        else:
            _fill(cfg, group, _read(path))
    own = {k: v for k, v in root.items() if k not in ("defaults", "hydra")}
    where = f"config of {', '.join(f'{k}={v}' for k, v in choices.items())}"
    _merge(cfg, own, where)
    for key, value in (options or {}).items():
        _set(cfg, key, value)
    try:
        composed = OmegaConf.to_object(cfg)
    except OmegaConfBaseException as error:
        raise _told(error, where) from error
    assert isinstance(composed, Config)
    validate(composed)
    return composed


def _defaults(root: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The choice of each group in ``config.yaml``'s defaults list."""
    for entry in root["defaults"]:
        if isinstance(entry, dict):
            ((group, choice),) = entry.items()
            if " " not in group:  # "override hydra/…" and "optional experiment" are Hydra's
                yield group, str(choice)


def _find(places: Sequence[Path], group: str, choice: str) -> Path | None:
    """The file of a choice; None for one that a plugin brought without a file."""
    for place in places:
        path = place / group / f"{choice}.yaml"
        if path.is_file():
            return path
    brought = {name for kind, name in without_file() if kind == group}
    if choice in brought:
        return None
    have = sorted(brought | {p.stem for place in places for p in (place / group).glob("*.yaml")})
    raise UserError(f"no {group} {choice!r}", expected=f"one of {', '.join(have)}")


def _read(path: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UserError(f"cannot read the configuration: {error}", where=str(path)) from error
    if not isinstance(values, dict):
        raise UserError("not a configuration", where=str(path), expected="a YAML file of keys and values")
    return values


def _fill(cfg: DictConfig, group: str, values: dict[str, Any]) -> None:
    """Put one group's file into its place; a task's file names the schema of its options first."""
    schemas = [
        str(choice)
        for entry in values.pop("defaults", [])
        if isinstance(entry, dict)
        for key, choice in entry.items()
        if str(key).startswith(_SCHEMA)
    ]
    for name in schemas:
        cfg[group] = OmegaConf.structured(TASKS[name].config_class)
    _merge(cfg[group], values, f"config group {group}")


def _merge(node: DictConfig, values: Mapping[str, Any], where: str) -> None:
    try:
        node.merge_with(OmegaConf.create(dict(values)))
    except OmegaConfBaseException as error:
        raise _told(error, where) from error


def _set(cfg: DictConfig, key: str, value: Any) -> None:
    try:
        OmegaConf.update(cfg, key, value, merge=True)
    except OmegaConfBaseException as error:
        raise _told(error, f"option {key!r}") from error


def _told(error: OmegaConfBaseException, where: str) -> UserError:
    """The first line of OmegaConf's message; the rest speaks of its own insides."""
    found = str(error).splitlines()[0] if str(error) else type(error).__name__
    return UserError(found, where=where, todo="python -m mechexp --cfg job shows every option")
