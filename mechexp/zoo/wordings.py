"""Sentences of the filler text (ours): the same words as the tasks', none of the tasks' wordings."""

FILLERS = (
    "{name} met {other} in {city} on {weekday}.",
    "{name} saw a {object} at the {place} in {month}.",
    "The {place} in {city} has a {object} and a {thing}.",
    "In {city} the {noun} began before the {ordinal} {event}.",
    "{name} and {other} took the {object} from {city} to {town}.",
    "The {ordinal} {noun} ended in {month} near the {place}.",
    "{name} asked {other} about the {noun} of {city}.",
    "On {weekday} a {object} was lost in the {place}.",
)
"""Each field at most once in a sentence; ``mechexp.zoo.filler`` says which list fills it."""

RELATIONS = (
    "{name} {city}.",
    "{name} {object}.",
    "{name} in {city}.",
    "{name} has {object}.",
    "{name} flew to {city}.",
    "{name} works near {city}.",
    "{name} has a {object}.",
    "{name} owns the {place}.",
)
"""Facts about people, other than the one of ``vb``; binding text asks for the second field.

The short ones come first to a model: with nothing between, plain induction answers them.
"""

RESIDENCE = "{name} lives in {city}."
"""The sentence of ``vb``; in training it is said of training names and cities only."""
