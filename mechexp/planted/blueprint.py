"""What a planted model will be: every head's pattern, what it reads, what it writes, and so its role.

Effects are in units of support: a head of support u adds u · (1 − cos(B, C)) to the logit difference of the
right answer B and the wrong answer C (times the model's scale). A head that reads B writes +u B, one that
reads C writes −u C; u < 0 works against the answer.
"""

from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from mechexp.errors import UserError
from mechexp.planted.labels import ScreenTruth, expected_screens

SCREENS = ("prev_token", "induction", "duplicate_token", "bos")
PROFILES = ("path", "direct", "background")
N_LAYERS, N_HEADS = 4, 12
READS = {"prev_token": "target", "induction": "target", "duplicate_token": "distractor", "bos": "distractor"}
OTHER_ROLES = ("secondary", "interferer", "correlate", "idle", "null")
OTHER_SHARES = (0.3, 0.3, 0.15, 0.15, 0.1)
NULL_MEAN = 0.045  # support of each head of a layer where all heads matter alike


@dataclass(frozen=True)
class PlantedOptions:
    """Options of ``model=planted`` (``model.options``).

    Attributes:
        seed: Where heads sit, what they do, how strongly: all of it is drawn from this.
        profile: ``path`` (previous-token heads feed the induction heads that answer), ``direct``
            (previous-token heads answer themselves), ``background`` (all heads of one layer answer together,
            no screen's circuit more than others), or ``any``.
        strength: Support of secondary causes and interferers, with the main path at 1; 0 draws it between
            0.03 and 0.6.
        noise: Standard deviation of what every head writes beside its purpose; negative draws it.
        spread: Standard deviation of the support of heads that matter to nobody; negative draws it between
            0.004 and 0.06, log-uniformly.
        repaired: Whether the induction heads' loss is made up for by a later head: ``yes``, ``no``, ``any``.
    """

    seed: int = 0
    profile: str = "any"
    strength: float = 0.0
    noise: float = -1.0
    spread: float = -1.0
    repaired: str = "any"

    @classmethod
    def read(cls, values: dict[str, Any], where: str) -> "PlantedOptions":
        """Options from a config.

        Raises:
            UserError: An option that does not exist, or a value that it cannot have.
        """
        known = {f.name: f.type for f in fields(cls)}
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise UserError(
                f"no option {', '.join(unknown)}", where=where, expected=f"one of {', '.join(known)}"
            )
        try:
            options = cls(**{k: type(getattr(cls, k))(v) for k, v in values.items()})
        except (TypeError, ValueError) as error:
            raise UserError(f"model.options={values}: {error}", where=where) from error
        for key, allowed in (("profile", (*PROFILES, "any")), ("repaired", ("yes", "no", "any"))):
            if getattr(options, key) not in allowed:
                raise UserError(
                    f"model.options.{key}={getattr(options, key)}",
                    where=where,
                    expected=f"one of {', '.join(allowed)}",
                )
        if options.seed < 0 or not 0 <= options.strength <= 1 or max(options.noise, options.spread) > 0.5:
            raise UserError(
                f"model.options={values}",
                where=where,
                expected="seed of 0 or more, strength from 0 to 1, noise and spread up to 0.5",
            )
        if options.repaired == "yes" and options.profile not in ("any", "direct"):
            raise UserError(
                f"model.options.profile={options.profile} with repaired=yes",
                where=where,
                expected="profile=direct: another path must carry the answer",
            )
        return options


@dataclass(frozen=True)
class HeadPlan:
    """One head.

    Attributes:
        layer: Its layer.
        head: Its index.
        role: ``primary``, ``secondary``, ``interferer``, ``constant_interferer``, ``correlate``, ``idle``,
            ``null``, ``repaired``, ``repair`` (makes up for the repaired ones) or ``spare``.
        pattern: What it attends to: one of ``SCREENS``, ``offset`` (a fixed distance back) or ``suppression``
            (the word that is being predicted).
        reads: Which answer stands there: ``target``, ``distractor`` or ``""``.
        support: What it adds to the logit difference directly; ``repair`` heads: what they take away.
        relay: How much of what it reads it writes for later heads' keys (previous-token heads only).
        offset: Distance back of an ``offset`` head.
    """

    layer: int
    head: int
    role: str
    pattern: str
    reads: str
    support: float
    relay: float = 0.0
    offset: int = 0


@dataclass(frozen=True)
class Blueprint:
    """A whole model.

    Attributes:
        options: What it was drawn from.
        profile: Its profile.
        roles: Role of each screen's circuit.
        noise: Standard deviation of what every head writes beside its purpose.
        spread: Standard deviation of the support of heads that matter to nobody.
        heads: Every head, by layer and index.
        screens: What each screen's label should be.
    """

    options: PlantedOptions
    profile: str
    roles: dict[str, str]
    noise: float
    spread: float
    heads: tuple[HeadPlan, ...]
    screens: dict[str, ScreenTruth]

    def truth(self) -> dict[str, Any]:
        """``truth.json``."""
        return {"schema": "mechexp.truth/1", **asdict(self)}


def draw_blueprint(options: PlantedOptions) -> Blueprint:
    """Draw a model; the same options give the same one.

    Draws in which two causes are about equally strong, or in which little is left of the answer, are drawn
    again: their right label would be a matter of taste.
    """
    rng = np.random.default_rng(options.seed)
    while True:
        blueprint = _draw(options, rng)
        if blueprint is not None:
            return blueprint


def _draw(options: PlantedOptions, rng: np.random.Generator) -> Blueprint | None:
    profile = options.profile
    if profile == "any":
        profile = "direct" if options.repaired == "yes" else str(rng.choice(PROFILES, p=(0.4, 0.4, 0.2)))
    layers = dict(zip(SCREENS, (0, *(int(i) for i in 1 + rng.permutation(3))), strict=True))
    if options.repaired == "yes" and layers["induction"] == N_LAYERS - 1:
        return None  # no later layer could make up for it
    noise = options.noise if options.noise >= 0 else float(rng.uniform(0.01, 0.05))
    spread = options.spread if options.spread >= 0 else float(np.exp(rng.uniform(*np.log((0.004, 0.06)))))
    sizes = {s: int(rng.choice((2, 3))) for s in SCREENS}
    roles, support = _roles(options, profile, layers, rng)
    if profile == "background":  # so many that their like do heavy damage: a destructive null
        sizes |= {s: 4 for s, role in roles.items() if role == "null"}
    means = {layers[s]: NULL_MEAN if profile != "background" else 1 / N_HEADS
             for s, role in roles.items() if role == "null"}  # fmt: skip
    heads: list[HeadPlan] = []
    for layer in range(N_LAYERS):
        heads += _layer(layer, layers, sizes, roles, support, means.get(layer, 0.0), spread, rng)
    screens = expected_screens(heads, roles)
    if screens is None:
        return None
    return Blueprint(options, profile, roles, noise, spread, tuple(heads), screens)


def _roles(
    options: PlantedOptions, profile: str, layers: dict[str, int], rng: np.random.Generator
) -> tuple[dict[str, str], dict[str, float]]:
    """Role and total support of each screen's own heads."""
    strength = options.strength or float(rng.uniform(0.03, 0.6))

    def other(*but: str) -> str:
        share = np.array([0 if r in but else p for r, p in zip(OTHER_ROLES, OTHER_SHARES, strict=True)])
        return str(rng.choice(OTHER_ROLES, p=share / share.sum()))

    roles: dict[str, str] = {}
    if profile == "path":
        roles = {"prev_token": "relay", "induction": "main", "duplicate_token": other(), "bos": other()}
    elif profile == "direct":
        roles = {"prev_token": "main", "induction": other(), "duplicate_token": other(), "bos": other()}
    else:
        host = str(rng.choice(("prev_token", "bos")))
        roles = {s: ("null" if s == host else str(rng.choice(("idle", "correlate")))) for s in SCREENS}
        if host == "bos":  # what later heads add through the relay would be an effect of previous-token heads
            roles |= {"prev_token": "idle", "induction": "correlate", "duplicate_token": "correlate"}
    while list(roles.values()).count("null") > 1:  # one layer at most where every head matters
        roles[[s for s, r in roles.items() if r == "null"][-1]] = "correlate"
    may_repair = profile == "direct" and layers["induction"] < N_LAYERS - 1 and options.repaired != "no"
    if options.repaired == "yes" or (may_repair and rng.random() < 0.25):
        roles |= {"induction": "repaired", "duplicate_token": "correlate", "bos": "correlate"}
    if roles["bos"] == "interferer" and rng.random() < 0.3:
        roles["bos"] = "constant_interferer"
    signs = {"main": 1.0, "secondary": strength, "interferer": -strength, "constant_interferer": -strength}
    support = {s: signs.get(role, 0.0) for s, role in roles.items()}
    support["prev_token"] += {"relay": float(rng.choice((-1, 1)) * rng.uniform(0.2, 0.35))}.get(
        roles["prev_token"], 0.0
    )
    if roles["induction"] == "repaired":
        support["induction"] = float(rng.uniform(0.7, 0.9))
    return roles, support


def _layer(
    layer: int,
    layers: dict[str, int],
    sizes: dict[str, int],
    roles: dict[str, str],
    support: dict[str, float],
    mean: float,
    spread: float,
    rng: np.random.Generator,
) -> list[HeadPlan]:
    """The heads of one layer, in random places: its screen's circuit, perhaps a repair head, spare heads."""
    screen = next(s for s in SCREENS if layers[s] == layer)
    places = [int(h) for h in rng.permutation(N_HEADS)]
    plans = []
    weights = rng.dirichlet(np.full(sizes[screen], 20.0))
    for weight in weights:
        own = support[screen] * float(weight)
        if roles[screen] in ("idle", "null"):
            own = float(rng.normal(mean, spread + 0.15 * mean))
        relay = 1 / sizes[screen] if screen == "prev_token" else 0.0
        plans.append(HeadPlan(layer, places.pop(), roles[screen], screen, READS[screen], own, relay=relay))
    if roles["induction"] == "repaired" and layer == layers["induction"] + 1:
        plans.append(HeadPlan(layer, places.pop(), "repair", "suppression", "target", -support["induction"]))
    while places:
        own = float(rng.normal(mean, spread + 0.15 * mean))
        # mostly the right word: an answer that only suppresses the wrong one would not be the likeliest word
        reads, offset = ("target", 5) if mean > NULL_MEAN or rng.random() < 0.75 else ("distractor", 3)
        plans.append(HeadPlan(layer, places.pop(), "spare", "offset", reads, own, offset=offset))
    return sorted(plans, key=lambda p: p.head)
