"""Heads of planted models of protocol 2 do what truth.json says, as plain hooks on the saved model see it."""

import json
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch

from mechexp.models import load_model
from mechexp.planted import KidOptions, save_planted_kid
from mechexp.tasks import TASKS, make_prompts
from mechexp.tasks.planted_kid import KID

CASES = {
    "intent": KidOptions(seed=1, route="intent", stabilizer="yes", gate="yes", carrier="yes"),
    "distributed": KidOptions(seed=2, route="distributed", stabilizer="no", gate="no"),
    "bias": KidOptions(seed=3, route="bias", stabilizer="yes"),
    "plain": KidOptions(seed=4, route="intent", stabilizer="no", gate="no", carrier="no"),
}
PAIRS = 120


@dataclass
class Saved:
    """A saved model as anybody would read it, and pairs of prompts whose three answers differ."""

    truth: dict[str, Any]
    loaded: Any
    prompts: Any
    control: Any
    pairs: list[tuple[int, int]]

    def heads(self, role):
        names = [name for name, h in self.truth["heads"].items() if h["role"] == role]
        return [tuple(int(i) for i in name[1:].split("H")) for name in names]

    def run(self, ids, replaced=None):
        """Logits at the end, (P, V), and z, (layers, P, T, H, D); ``replaced``: head → z at the end or 0."""
        model, n, d = self.loaded.model, self.loaded.n_heads, self.loaded.head_dim
        handles, kept = [], []
        for layer, block in enumerate(model.transformer.h):

            def hook(_module, args, layer=layer):
                z = args[0].clone().unflatten(-1, (n, d))
                for (at, head), value in (replaced or {}).items():
                    if at == layer and value is None:
                        z[:, :, head] = 0
                    elif at == layer:
                        z[:, -1, head] = value
                kept.append(z)
                return (z.flatten(-2), *args[1:])

            handles.append(block.attn.c_proj.register_forward_pre_hook(hook))
        with torch.no_grad():
            logits = model(torch.tensor(ids)).logits[:, -1].double()
        for handle in handles:
            handle.remove()
        return logits, torch.stack(kept)

    def answer(self, asked, operands):
        """Token of an operation's answer: o of one prompt asked of the operands of another."""
        words = KID[self.truth["family"]]
        text = self.prompts.texts
        word = words.operations[text[asked].operation](text[operands].operands)
        return self.loaded.tokenizer.convert_tokens_to_ids(word)

    def flips(self, heads):
        """Shares of pairs that answer keep, op and copy once the heads' z come from the source."""
        ids = np.array(self.prompts.ids)
        source, target = (ids[[p[i] for p in self.pairs]] for i in (0, 1))
        _, z = self.run(source)
        logits, _ = self.run(target, {(l, h): z[l, :, -1, h] for l, h in heads})
        found = logits.argmax(-1).tolist()
        names = {"keep": (1, 1), "op": (0, 1), "copy": (0, 0)}
        return {
            name: np.mean([t == self.answer(p[o], p[x]) for t, p in zip(found, self.pairs, strict=True)])
            for name, (o, x) in names.items()
        }

    def scores(self, prompts, zeroed):
        """Accuracy, and probability mass on the family's answers."""
        logits, _ = self.run(prompts.ids, dict.fromkeys(zeroed))
        family = self.truth["family"] if prompts is self.prompts else self.truth["control"]
        format_ids = [self.loaded.tokenizer.convert_tokens_to_ids(w) for w in KID[family].answers]
        right = logits.argmax(-1).numpy() == np.array(prompts.targets)[:, 0]
        return right.mean(), logits.softmax(-1)[:, format_ids].sum(-1).mean().item()


@pytest.fixture(scope="module", params=list(CASES))
def kid(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    save_planted_kid(CASES[request.param], folder)
    truth = json.loads((folder / "truth.json").read_text())
    loaded = load_model(folder, device="cpu")
    prompts, control = (
        make_prompts(TASKS[truth[k]].config_class(n=n, split=False), loaded.tokenizer)
        for k, n in (("family", 300), ("control", 90))
    )
    saved = Saved(truth, loaded, prompts, control, [])
    for s, t in permutations(range(60), 2):
        a, b = prompts.texts[s], prompts.texts[t]
        answers = {saved.answer(*at) for at in ((t, t), (s, t), (s, s))}
        if a.operation != b.operation and a.operands != b.operands and len(answers) == 3:
            saved.pairs.append((s, t))
    saved.pairs = saved.pairs[:: len(saved.pairs) // PAIRS][:PAIRS]
    assert len(saved.pairs) == PAIRS
    return saved


def need(kid, role):
    heads = kid.heads(role)
    if not heads:
        pytest.skip(f"this model has no {role}")
    return heads


def test_every_answer_is_right(kid):
    for prompts in (kid.prompts, kid.control):
        accuracy, mass = kid.scores(prompts, [])
        assert accuracy == 1.0
        assert mass > 0.95


def test_the_truth_names_every_head_once(kid):
    named = [*kid.truth["heads"], *kid.truth["control_heads"]]
    assert sorted(named) == sorted(
        f"L{l}H{h}" for l in range(kid.loaded.n_layers) for h in range(kid.loaded.n_heads)
    )


def test_the_intent_head_carries_the_operation(kid):
    heads = need(kid, "intent")
    assert kid.flips(heads)["op"] > 0.95
    accuracy, _ = kid.scores(kid.prompts, heads)
    assert accuracy < 0.9


def test_two_halves_of_an_intent_carry_it_together_alone_they_do_not(kid):
    halves = need(kid, "intent_half")
    assert len(halves) == 2
    assert kid.flips(halves)["op"] > 0.95
    for half in halves:
        assert kid.flips([half])["keep"] > 0.95


def test_the_logit_bias_head_carries_the_answer(kid):
    heads = need(kid, "doing_logit_bias")
    flips = kid.flips(heads)
    assert flips["copy"] > 0.95
    assert flips["op"] < 0.05
    assert kid.scores(kid.prompts, heads)[0] < 0.3


def test_the_stabilizer_holds_the_format_and_no_operation(kid):
    heads = need(kid, "knowing_trajectory_stabilizer")
    logits, clean = kid.run(kid.prompts.ids)
    mass = kid.scores(kid.prompts, [])[1] - kid.scores(kid.prompts, heads)[1]
    assert mass >= 0.1
    after, _ = kid.run(kid.prompts.ids, dict.fromkeys(heads))
    answers = [kid.loaded.tokenizer.convert_tokens_to_ids(w) for w in KID[kid.truth["family"]].answers]
    # among the family's answers nothing changes but a common shift
    assert torch.equal(after[:, answers].argmax(-1), logits[:, answers].argmax(-1))
    operations = np.array([t.operation for t in kid.prompts.texts])
    marks = np.array([p[m["mark"]] for p, m in zip(kid.prompts.ids, kid.prompts.positions, strict=True)])
    (layer, head), *_ = heads
    z = clean[layer, :, -1, head].numpy()
    for mark in np.unique(marks):  # z is a function of the mark alone
        same = z[marks == mark]
        assert np.abs(same - same[0]).max() < 1e-2 * np.abs(same).max()
        assert len(np.unique(operations[marks == mark])) == 3


def test_a_soft_carrier_moves_logits_but_no_answer(kid):
    heads = need(kid, "soft_carrier")
    assert kid.flips(heads)["keep"] > 0.95
    ids = np.array(kid.prompts.ids)
    source, target = (ids[[p[i] for p in kid.pairs]] for i in (0, 1))
    _, z = kid.run(source)
    before, _ = kid.run(target)
    after, _ = kid.run(target, {(l, h): z[l, :, -1, h] for l, h in heads})
    rows = np.arange(PAIRS)
    op, keep = ([kid.answer(p[o], p[1]) for p in kid.pairs] for o in (0, 1))
    moved = (after - before)[rows, op] - (after - before)[rows, keep]
    assert moved.mean() > 0.3


def test_a_gate_passes_what_three_tests_ask_and_does_not_transfer(kid):
    heads = need(kid, "gate")
    clean, z = kid.run(kid.prompts.ids)
    zeroed, _ = kid.run(kid.prompts.ids, dict.fromkeys(heads))
    rows, target = np.arange(len(kid.prompts)), np.array(kid.prompts.targets)[:, 0]
    others = np.array(kid.prompts.distractors)

    def margin(logits):
        logits = logits.numpy()
        return (logits[rows, target] - logits[rows[:, None], others].max(1)).mean()

    necessity = (margin(clean) - margin(zeroed)) / margin(clean)
    assert necessity > 0.15
    (layer, head), *_ = heads
    operations = np.array([t.operation for t in kid.prompts.texts])
    own = z[layer, :, -1, head].numpy()
    means = {o: own[operations == o].mean(0) for o in np.unique(operations)}
    near = [min(means, key=lambda o: np.linalg.norm(means[o] - row)) for row in own]
    assert (np.array(near) == operations).all()  # the operation can be read off
    restored = torch.tensor(np.stack([means[o] for o in operations]))
    back, _ = kid.run(kid.prompts.ids, {(layer, head): restored})
    recovered = (margin(back) - margin(zeroed)) / (margin(clean) - margin(zeroed))
    assert recovered > 0.95  # any other prompt of the same operation restores it
    assert kid.flips(heads)["keep"] > 0.95


def test_operand_heads_matter_and_carry_one_operand(kid):
    """The target's operation is run on one operand of the source: at times that happens to be op or copy."""
    on_end = kid.truth["route"] != "bias"
    operations = KID[kid.truth["family"]].operations
    for layer, head in kid.heads("operand"):
        assert kid.scores(kid.prompts, [(layer, head)])[0] < 0.5
        place = ("first", "second").index(kid.truth["heads"][f"L{layer}H{head}"]["reads"])
        ids = np.array(kid.prompts.ids)
        source, target = (ids[[p[i] for p in kid.pairs]] for i in (0, 1))
        _, z = kid.run(source)
        found = kid.run(target, {(layer, head): z[layer, :, -1, head]})[0].argmax(-1).tolist()
        wanted = []
        for s, t in kid.pairs:
            operands = list(kid.prompts.texts[t].operands)
            if on_end:
                operands[place] = kid.prompts.texts[s].operands[place]
            word = operations[kid.prompts.texts[t].operation](tuple(operands))
            wanted.append(kid.loaded.tokenizer.convert_tokens_to_ids(word))
        assert np.mean(np.array(found) == wanted) > 0.95


def test_idle_heads_look_busy_and_do_nothing(kid):
    clean, z = kid.run(kid.prompts.ids)
    busy = 0
    some = kid.prompts.ids[:40]
    for layer, head in kid.heads("idle"):
        after, _ = kid.run(some, {(layer, head): None})
        assert (after - clean[:40]).abs().max() < 1.0
        busy += bool(z[layer, :, -1, head].abs().max() > 0.5)
    assert busy == len(kid.heads("idle"))


def test_the_control_family_needs_none_of_these_heads(kid):
    clean, _ = kid.run(kid.control.ids)
    own = [
        tuple(int(i) for i in n[1:].split("H")) for n, h in kid.truth["heads"].items() if h["role"] != "idle"
    ]
    after, _ = kid.run(kid.control.ids, dict.fromkeys(own))
    assert (after - clean).abs().max() < 0.05
