"""The model card: what the model is, how it was made, what it can do, and what it cannot prove."""

from typing import Any

from mechexp.zoo.architectures import EXPERTS
from mechexp.zoo.documents import ANSWER, COPY
from mechexp.zoo.documents import TEXT as TEXT_WEIGHT
from mechexp.zoo.evaluation import PASS, not_learned
from mechexp.zoo.training import Trained

KINDS = {
    "tiny_pythia": "stock `GPTNeoXForCausalLM` (Pythia's class): LayerNorm, biases, attention and MLP in "
    "parallel; rotary embedding over whole heads, where Pythia uses a quarter of each",
    "tiny_olmo": "stock `OlmoForCausalLM` (the class of OLMo-1B-0724): LayerNorm without weights, "
    "SwiGLU, no biases",
    "tiny_olmoe": "stock `OlmoeForCausalLM` (OLMoE's class): RMSNorm, normed queries and keys, "
    f"{EXPERTS} experts of which each token uses two",
    "tiny_olmoe_dense": "stock `OlmoeForCausalLM` with one expert as wide as two of `tiny_olmoe`'s. The "
    "router has nothing to choose: softmax over one number is 1, so this is a dense MLP. Attention, norms, "
    'data and steps are those of `tiny_olmoe`: the control for "is it the experts?"',
}

TEXT = """# {name}

{kind}. {layers} layers, {heads} heads of {head_dim}, width {width}, {parameters} parameters, trained from
scratch by `python -m mechexp.zoo train {name} --seed {seed} --steps {steps}`; stored in float16.

## Data

Documents are drawn with the shares in `recipe.json` and packed into rows of {length} tokens, where each
sees only itself:

* `ioi`, `gt`, `succ`, `vb`: prompts exactly as `mechexp.tasks` makes them (all ioi wordings; succ with both
  separators, 2 to 8 items and all five series), followed by a right answer;
* `binding`: one to four "NAME lives in CITY." and then four of them again, every city supervised;
* `relations`: the same with other facts about people;
* `sentences`: other sentences of the same words, repeated;
* `random`: random tokens with a segment that comes twice or is repeated to the end, or with echoes.

Loss weight {answer:g} on answers, {copy:g} on repeated segments, {text:g} on other text, 0 on random tokens
that nothing predicts.
{tokens} tokens seen in {steps} steps of Muon (matrices inside the layers) and AdamW (the rest), seed {seed}.
The first weights are mimetic: a head's queries and keys start equal, so every head first attends to what
is like its own position. What heads do in the end is training's; that some attend to themselves or to
equal tokens may be a remainder of the start.

Held out of all task prompts and binding text: {n_names} names and {n_cities} cities (they occur in filler
text only), a tenth of the start years, a fifth of the first items of five-item series.

## Accuracy (top-1 over the whole vocabulary, of the stored weights)

| task | held-out prompts | the task's default prompts |
|---|---|---|
{rows}

## Limits

Made to try methods on, not to stand for large models: the vocabulary is a few hundred words, every task was
trained on directly, and another seed may place the same function in other heads. Texts are at most {length}
tokens.{failed}
"""


def card(trained: Trained, found: dict[str, Any]) -> str:
    """The text of ``README.md``.

    Args:
        trained: The model and its recipe.
        found: Its accuracies, as ``mechexp.zoo.evaluation.report`` gives them.
    """
    from mechexp.zoo.heldout import N_CITIES, N_NAMES

    recipe, config = trained.recipe, trained.model.config
    low = not_learned(found)
    rows = [
        f"| {task} | {share:.3f} (n = {found['prompts']['held_out'][task]}) "
        f"| {found['default'][task]:.3f} (n = {found['prompts']['default'][task]}) |"
        for task, share in found["held_out"].items()
    ]
    return TEXT.format(
        name=recipe.name,
        kind=KINDS[recipe.name],
        layers=config.num_hidden_layers,
        heads=config.num_attention_heads,
        head_dim=config.hidden_size // config.num_attention_heads,
        width=config.hidden_size,
        parameters=f"{sum(p.numel() for p in trained.model.parameters()):,}",
        seed=recipe.seed,
        steps=recipe.steps,
        length=recipe.length,
        tokens=f"{trained.tokens[recipe.steps]:,}",
        answer=ANSWER,
        copy=COPY,
        text=TEXT_WEIGHT,
        n_names=N_NAMES,
        n_cities=N_CITIES,
        rows="\n".join(rows),
        failed=f" **Not learned** (held-out top-1 below {PASS}): {', '.join(low)}." if low else "",
    )
