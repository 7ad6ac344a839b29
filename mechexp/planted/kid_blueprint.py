"""What a planted model of protocol 2 will be: which head carries the operation, the answer, or the format.

An answer is reached in one of two places. At the last word: heads move the operation (one head, or two with
half of it each) and the operands there, and a lookup MLP answers. At the operator word: the lookup happens
there, and a later head copies the finished answer to the last word. The family under test does it in a drawn
way; the control family has heads and neurons of its own and always answers at the last word.
"""

from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from mechexp.errors import UserError

N_LAYERS, N_HEADS = 4, 8
ROUTES = ("intent", "distributed", "bias")
CASES = ("yes", "no", "any")
FAMILY, CONTROL = "planted_kid", "planted_kid_control"
# Role → roles that protocol 2 may rightly give such a head alone. Halves of a distributed intent each hold
# part of the operation, not enough to change an answer.
EXPECTED = {
    "intent": ("intent",),
    "intent_half": ("soft_carrier",),
    "doing_logit_bias": ("doing_logit_bias",),
    "knowing_trajectory_stabilizer": ("knowing_trajectory_stabilizer",),
    "soft_carrier": ("soft_carrier",),
    "gate": ("soft_carrier", "broad_state", "unclassified"),
    "operand": ("broad_state", "unclassified"),
    "idle": ("unclassified",),
}


@dataclass(frozen=True)
class KidOptions:
    """Options of ``model=planted_kid`` (``model.options``).

    Attributes:
        seed: Where heads sit, what they do, how strongly: all of it is drawn from this.
        route: ``intent`` (one head moves the operation), ``distributed`` (two heads move half of it each),
            ``bias`` (a head moves the answer), or ``any``.
        soft: Share of the operation that a soft carrier moves; 0 draws it.
        noise: Size of what every head writes at random beside its purpose; negative draws it.
        stabilizer: Whether the answers' format depends on a head: ``yes``, ``no``, ``any``.
        gate: Whether part of the answer needs a second head's agreement (not on the bias route); likewise.
        carrier: Whether there is a soft carrier (not on the bias route; always beside a distributed intent).
    """

    seed: int = 0
    route: str = "any"
    soft: float = 0.0
    noise: float = -1.0
    stabilizer: str = "any"
    gate: str = "any"
    carrier: str = "any"

    @classmethod
    def read(cls, values: dict[str, Any], where: str) -> "KidOptions":
        """Options from a config.

        Raises:
            UserError: An option that does not exist, or a value that it cannot have.
        """
        known = [f.name for f in fields(cls)]
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise UserError(
                f"no option {', '.join(unknown)}", where=where, expected=f"one of {', '.join(known)}"
            )
        try:
            options = cls(**{k: type(getattr(cls, k))(v) for k, v in values.items()})
        except (TypeError, ValueError) as error:
            raise UserError(f"model.options={values}: {error}", where=where) from error
        choices = {"route": (*ROUTES, "any"), "stabilizer": CASES, "gate": CASES, "carrier": CASES}
        for key, allowed in choices.items():
            if getattr(options, key) not in allowed:
                raise UserError(
                    f"model.options.{key}={getattr(options, key)}",
                    where=where,
                    expected=f"one of {', '.join(allowed)}",
                )
        if options.seed < 0 or not 0 <= options.soft <= 0.2 or options.noise > 0.1:
            raise UserError(
                f"model.options={values}",
                where=where,
                expected="seed of 0 or more, soft from 0 to 0.2, noise up to 0.1",
            )
        if options.route == "bias" and "yes" in (options.gate, options.carrier):
            raise UserError(
                "a gate or a soft carrier on the bias route", where=where,
                expected="route=intent or distributed: no head moves the operation on the bias route",
            )  # fmt: skip
        if options.route == "distributed" and options.carrier == "no":
            raise UserError(
                "a distributed intent without a soft carrier", where=where,
                expected="carrier=yes: it keeps two equal halves from a tie",
            )  # fmt: skip
        return options


@dataclass(frozen=True)
class KidHead:
    """One head.

    Attributes:
        layer: Its layer.
        head: Its index.
        role: A key of ``EXPECTED``.
        family: The family it works for.
        attends: The word it attends to: ``operator``, ``first``, ``second``, ``mark``.
        reads: What its z holds: ``operator``, ``first``, ``second``, ``mark``, ``answer`` (and the
            operator).
        writes: Where that goes: ``operation``, ``gate``, ``first``, ``second``, ``mark``, ``answer``, or
            ``""`` (nowhere that matters).
        strength: Share of the whole that it writes.
        expected: Roles that protocol 2 may rightly give it.
    """

    layer: int
    head: int
    role: str
    family: str
    attends: str
    reads: str
    writes: str
    strength: float
    expected: tuple[str, ...]


@dataclass(frozen=True)
class KidBlueprint:
    """A whole model.

    Attributes:
        options: What it was drawn from.
        route: Route of the family under test.
        lookup: Layer of the MLP that looks answers up.
        format: Layer of the MLP that compares the mark with the last word.
        gate: Share of the answer that needs the gate head; 0 without one.
        stabilized: Whether the format of the family under test depends on a head.
        noise: Size of what every head writes at random.
        heads: Every head, by layer and index.
    """

    options: KidOptions
    route: str
    lookup: int
    format: int
    gate: float
    stabilized: bool
    noise: float
    heads: tuple[KidHead, ...]

    def truth(self) -> dict[str, Any]:
        """``truth.json``: roles of the heads of the family under test, idle ones among them."""
        own = [h for h in self.heads if h.family == FAMILY]
        halves = [f"L{h.layer}H{h.head}" for h in own if h.role == "intent_half"]
        sets = [{"heads": halves, "role": "intent"}] if halves else []
        plan = {k: v for k, v in asdict(self).items() if k != "heads"}
        return {
            "schema": "mechexp.truth/1",
            "protocol": "transfer",
            "family": FAMILY,
            "control": CONTROL,
            **plan,
            "heads": {f"L{h.layer}H{h.head}": asdict(h) for h in own},
            "control_heads": [f"L{h.layer}H{h.head}" for h in self.heads if h.family == CONTROL],
            "sets": sets,
        }


# What a head of a role attends to, reads and writes.
WAYS = {
    "intent": ("operator", "operator", "operation"),
    "intent_half": ("operator", "operator", "operation"),
    "soft_carrier": ("operator", "operator", "operation"),
    "gate": ("operator", "operator", "gate"),
    "doing_logit_bias": ("operator", "answer", "answer"),
    "knowing_trajectory_stabilizer": ("mark", "mark", "mark"),
}


def draw_kid(options: KidOptions) -> KidBlueprint:
    """Draw a model; the same options give the same one."""
    rng = np.random.default_rng([options.seed, 2])
    route = options.route
    if route == "any":
        fitting = [r for r in ROUTES if _fits(r, options)]
        route = str(rng.choice(fitting))
    lookup, form = int(rng.integers(1, 3)), int(rng.integers(1, 4))
    stabilized = _case(options.stabilizer, 0.7, rng)
    gated = _case(options.gate, 0.5, rng) and route != "bias"
    carrier = (_case(options.carrier, 0.5, rng) or route == "distributed") and route != "bias"
    gate = float(rng.uniform(0.3, 0.4)) * gated
    soft = (options.soft or float(rng.uniform(0.08, 0.15))) * carrier
    noise = options.noise if options.noise >= 0 else float(rng.uniform(0.0, 0.02))
    free = [[int(h) for h in rng.permutation(N_HEADS)] for _ in range(N_LAYERS)]
    heads: list[KidHead] = []

    def place(role: str, way: tuple[str, str, str], layers: range, strength: float, family: str) -> None:
        layer = int(rng.choice([layer for layer in layers if free[layer]]))
        heads.append(KidHead(layer, free[layer].pop(), role, family, *way, strength, EXPECTED[role]))

    before, up_to_format, after = range(lookup + 1), range(form + 1), range(lookup + 1, N_LAYERS)
    for family in (FAMILY, CONTROL):
        for operand in ("first", "second"):
            place("operand", (operand, operand, operand), before, 1.0, family)
    place("intent", WAYS["intent"], before, 1.0, CONTROL)
    if route == "bias":
        place("doing_logit_bias", WAYS["doing_logit_bias"], after, 1.0, FAMILY)
    elif route == "intent":
        place("intent", WAYS["intent"], before, 1.0 - soft, FAMILY)
    else:
        for _ in range(2):
            place("intent_half", WAYS["intent_half"], before, (1.0 - soft) / 2, FAMILY)
    if soft:
        place("soft_carrier", WAYS["soft_carrier"], before, soft, FAMILY)
    if gate:
        place("gate", WAYS["gate"], before, 1.0, FAMILY)
    if stabilized:
        place(
            "knowing_trajectory_stabilizer", WAYS["knowing_trajectory_stabilizer"], up_to_format, 1.0, FAMILY
        )
    places = [(layer, head) for layer in range(N_LAYERS) for head in free[layer]]
    for layer, head in places:
        attends = str(rng.choice(("operator", "operator", "first", "second", "mark")))
        heads.append(KidHead(layer, head, "idle", FAMILY, attends, attends, "", 0.0, EXPECTED["idle"]))
    ordered = tuple(sorted(heads, key=lambda h: (h.layer, h.head)))
    return KidBlueprint(options, route, lookup, form, gate, stabilized, noise, ordered)


def _fits(route: str, options: KidOptions) -> bool:
    if route == "bias":
        return "yes" not in (options.gate, options.carrier)
    return route != "distributed" or options.carrier != "no"


def _case(wish: str, share: float, rng: np.random.Generator) -> bool:
    drawn = bool(rng.random() < share)
    return drawn if wish == "any" else wish == "yes"
