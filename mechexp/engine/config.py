"""How conditions are evaluated: options that change speed and memory, never a number that is reported."""

from dataclasses import dataclass

from mechexp.errors import UserError

BACKENDS = ("hooks", "nnsight")
ROUTES = ("auto", "fast", "plain")


@dataclass
class EngineConfig:
    """Options of the engine.

    Attributes:
        backend: ``hooks`` (torch hooks, on this machine) or ``nnsight`` (the same through nnsight traces).
        route: ``auto`` resumes inside the model where its exactness check passes, and says so where it falls
            back; ``fast`` insists on it; ``plain`` runs one full hooked forward a condition.
        memory_gb: Memory the engine may use beside the model's weights, in GB (10⁹ bytes).
        store: Folder of known outcomes, shared by runs and safe for several at once; "" keeps none.
        threads: CPU threads while the engine runs; 0 leaves torch's own setting.
        remote: With ``backend=nnsight``: run on NDIF's servers, which needs a key in ``NDIF_API_KEY``.
    """

    backend: str = "hooks"
    route: str = "auto"
    memory_gb: float = 2.0
    store: str = ""
    threads: int = 0
    remote: bool = False


def validate(cfg: EngineConfig) -> None:
    """Refuse values that no type can.

    Raises:
        UserError: Names the key, the value and what it may be.
    """
    for key, allowed in (("backend", BACKENDS), ("route", ROUTES)):
        if getattr(cfg, key) not in allowed:
            raise UserError(f"engine.{key}={getattr(cfg, key)!r}", expected=f"one of {', '.join(allowed)}")
    if not cfg.memory_gb > 0:
        raise UserError(f"engine.memory_gb={cfg.memory_gb}", expected="a positive number of gigabytes")
    if cfg.threads < 0:
        raise UserError(f"engine.threads={cfg.threads}", expected="0 (torch's own setting) or more")
    if cfg.remote and cfg.backend != "nnsight":
        raise UserError("engine.remote=true", expected="engine.backend=nnsight beside it")
    if cfg.backend == "nnsight" and cfg.route == "fast":
        raise UserError(
            "engine.route=fast with engine.backend=nnsight", expected="route=auto or route=plain with nnsight"
        )
