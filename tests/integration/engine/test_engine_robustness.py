"""Hooks and weights of the user, errors in the middle, memory, and the outcome store."""

import multiprocessing
import sqlite3

import engine_micro as em
import numpy as np
import pytest
import torch

from mechexp.engine import Condition, EngineConfig, measure, run
from mechexp.engine.block_run import BlockRun
from mechexp.engine.checks import has_hooks
from mechexp.engine.memory import Budget
from mechexp.engine.resume import Resumer
from mechexp.engine.store import FILE, Store
from mechexp.errors import UserError
from mechexp.models.heads import Head


def conditions():
    heads = em.heads_of(em.micro("llama"))
    return [Condition(), *(Condition((h,), "zero", p) for h in heads for p in ("all", "end"))]


def weights(loaded):
    return [p.detach().clone() for p in loaded.model.parameters()]


def test_hooks_of_the_user_survive_fire_and_shape_the_numbers():
    loaded, prompts = em.micro("llama"), em.prompts()
    seen = []

    def mine(_module, _args, out):
        seen.append(out.shape)
        return out * 1.1

    handle = loaded.layers()[1].mlp.register_forward_hook(mine)
    try:
        fast = run(loaded, prompts, conditions(), config=EngineConfig(route="fast"))
        count = len(seen)
        plain = run(loaded, prompts, conditions(), config=EngineConfig(route="plain"))
        assert count > 3 and len(loaded.layers()[1].mlp._forward_hooks) == 1
    finally:
        handle.remove()
    for a, b in zip(fast.outcomes, plain.outcomes, strict=True):
        assert np.abs(a.logit_diff - b.logit_diff).max() < 1e-4
    bare = run(loaded, prompts, conditions(), config=EngineConfig(route="plain"))
    assert np.abs(bare.outcomes[0].logit_diff - plain.outcomes[0].logit_diff).max() > 1e-3
    assert not has_hooks(loaded)


@pytest.mark.parametrize("after", [0, 4, 12, 25, 33])
def test_an_error_in_the_middle_leaves_no_hook_and_no_changed_weight(after, monkeypatch):
    loaded, before = em.micro("llama"), weights(em.micro("llama"))
    forwards = [m.__dict__.get("forward") for m in loaded.model.modules()]
    calls = []
    stock = loaded.layers()[2].mlp.forward

    def breaks(*args, **kwargs):
        calls.append(1)
        if len(calls) > after:
            raise KeyError("broken on purpose")
        return stock(*args, **kwargs)

    monkeypatch.setattr(loaded.layers()[2].mlp, "forward", breaks)
    with pytest.raises(KeyError, match="on purpose"):
        measure(loaded, em.prompts(), conditions())
    monkeypatch.undo()
    assert not has_hooks(loaded)
    assert [m.__dict__.get("forward") for m in loaded.model.modules()] == forwards
    assert all(torch.equal(a, b) for a, b in zip(before, weights(loaded), strict=True))
    assert run(loaded, em.prompts(), conditions()).route == "fast"


def test_nothing_is_left_behind_after_a_run():
    loaded = em.micro("gpt_neox")
    before, threads = weights(loaded), torch.get_num_threads()
    measure(loaded, em.prompts(), conditions(), threads=2)
    assert not has_hooks(loaded) and torch.get_num_threads() == threads
    assert all("forward" not in m.__dict__ for m in loaded.model.modules())
    assert all(torch.equal(a, b) for a, b in zip(before, weights(loaded), strict=True))


def test_out_of_memory_halves_the_states_and_goes_on(monkeypatch):
    loaded, prompts = em.micro("llama"), em.prompts((9,) * 4)
    expected = measure(loaded, prompts, conditions(), route="plain")
    stock, sizes = Resumer.layer, []

    def tight(self, clean, at, stream_BQE, length):
        if stream_BQE.shape[0] > 4 * 3:  # more than three states of four prompts do not fit
            raise torch.OutOfMemoryError("made up")
        sizes.append(stream_BQE.shape[0])
        return stock(self, clean, at, stream_BQE, length)

    monkeypatch.setattr(Resumer, "layer", tight)
    found = run(loaded, prompts, conditions(), config=EngineConfig(route="fast"))
    assert max(sizes) > 4  # it went on with fewer states, not with one at a time
    for a, b in zip(found.outcomes, expected, strict=True):
        assert np.abs(a.logit_diff - b.logit_diff).max() < 1e-4
    monkeypatch.setattr(Resumer, "layer", lambda *_: (_ for _ in ()).throw(torch.OutOfMemoryError("made up")))
    with pytest.raises(UserError, match="memory"):
        run(loaded, prompts, conditions(), config=EngineConfig(route="fast"))


def test_clean_activations_beyond_the_budget_are_recomputed(monkeypatch):
    loaded, prompts = em.micro("llama"), em.prompts((9,) * 4)
    expected = measure(loaded, prompts, conditions())
    passes, stock = [], Resumer.clean

    def counted(self, *args, **kwargs):
        passes.append(kwargs["stream"])
        return stock(self, *args, **kwargs)

    monkeypatch.setattr(Resumer, "clean", counted)
    monkeypatch.setattr(Budget, "clean_layers", lambda *_: 1)
    found = run(loaded, prompts, conditions(), config=EngineConfig(route="fast"))
    assert {frozenset(p) for p in passes} >= {frozenset({0}), frozenset({1}), frozenset({2})}
    for a, b in zip(found.outcomes, expected, strict=True):
        assert np.abs(a.logit_diff - b.logit_diff).max() < 1e-5


@pytest.mark.parametrize("family", ["llama", "gpt_neox"])
def test_the_budget_bounds_states_prompts_and_logits(family):
    loaded = em.micro(family)
    for memory in (1e5, 1e6, 1e7):
        budget = Budget.of(loaded, memory)
        for length in (6, 12):
            prompts = budget.prompts(length, starts=3, tails=True, sources=0, conditions=50)
            clean = 3 * prompts * length * (budget.sizes.residual + budget.sizes.z)
            states = budget.states(prompts, length, length)
            moving = states * prompts * length * budget.sizes.work
            logits = budget.logit_states(prompts) * prompts * budget.sizes.logits
            assert prompts >= 1 and states >= 1
            assert prompts == 1 or clean < 0.5 * memory
            assert states == 1 or moving < 0.5 * memory
            assert budget.logit_states(prompts) == 1 or logits < 0.2 * memory


def test_known_outcomes_are_not_measured_again(tmp_path, monkeypatch):
    loaded, prompts = em.micro("llama"), em.prompts()
    config = EngineConfig(store=str(tmp_path))
    half = run(loaded, prompts, conditions()[:9], config=config)
    assert half.cached == 0
    computed = []
    stock = BlockRun.__init__

    def spy(self, resumer, budget, block, wanted, values, emit):
        computed.append({c.key for c in wanted})
        stock(self, resumer, budget, block, wanted, values, emit)

    monkeypatch.setattr(BlockRun, "__init__", spy)
    whole = run(loaded, prompts, conditions(), config=config)
    assert whole.cached == 9
    known = {c.key for c in conditions()[:9]}
    assert all(not (keys - {"clean"}) & known for keys in computed)
    for a, b in zip(whole.outcomes, half.outcomes, strict=False):
        assert np.array_equal(a.logit_diff, b.logit_diff) and a.edited == b.edited
        assert a.top1.dtype == bool
    again = run(loaded, prompts, conditions(), config=config)
    assert (again.cached, again.route) == (len(conditions()), "cached")
    assert run(loaded, prompts, conditions(), config=config, resume=False).cached == 0


def test_whatever_decides_the_numbers_is_part_of_the_key(tmp_path):
    loaded, prompts = em.micro("llama"), em.prompts()
    reference, condition = em.reference_prompts(), Condition((Head(0, 0),), "mean")
    resampled = Condition((Head(0, 0),), "resample")

    def keys(loaded=loaded, prompts=prompts, reference=reference, seed=0):
        store = Store(tmp_path, loaded, prompts, reference, seed)
        return store.key(condition), store.key(resampled)

    mean, resample = keys()
    assert keys(seed=1)[0] == mean and keys(seed=1)[1] != resample
    other = keys(reference=em.reference_prompts(seed=8))
    assert other[0] != mean and other[1] == resample
    for changed in (
        keys(prompts=em.prompts(seed=1)),
        keys(loaded=em.micro("llama", seed=1)),
        keys(loaded=em.micro("llama", dtype="bfloat16")),
    ):
        assert changed[0] != mean and changed[1] != resample


def test_hooks_on_the_model_keep_the_store_out(tmp_path):
    loaded, prompts = em.micro("llama"), em.prompts()
    run(loaded, prompts, conditions()[:2], config=EngineConfig(store=str(tmp_path)))
    handle = loaded.layers()[0].mlp.register_forward_hook(lambda _m, _a, out: out * 2)
    try:
        found = run(loaded, prompts, conditions()[:2], config=EngineConfig(store=str(tmp_path)))
    finally:
        handle.remove()
    assert found.cached == 0 and "store" in found.notes[0]


def test_a_damaged_store_is_set_aside(tmp_path, caplog):
    (tmp_path / FILE).write_bytes(b"no database at all" * 100)
    loaded, prompts, config = em.micro("llama"), em.prompts(), EngineConfig(store=str(tmp_path))
    run(loaded, prompts, conditions()[:2], config=config)
    assert "damaged" in caplog.text
    assert len(list(tmp_path.glob(f"{FILE}.broken-*"))) == 1
    assert run(loaded, prompts, conditions()[:2], config=config).cached == 2


def test_a_store_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    config = EngineConfig(store=str(tmp_path / "file"))
    with pytest.raises(UserError, match="store"):
        run(em.micro("llama"), em.prompts(), [Condition()], config=config)


def _write(folder, first):
    torch.set_num_threads(1)
    wanted = conditions()[first : first + 8]
    run(em.micro("llama"), em.prompts(), wanted, config=EngineConfig(store=folder))


def test_several_processes_write_one_store(tmp_path):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_write, args=(str(tmp_path), first)) for first in (0, 4, 8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [w.exitcode for w in workers] == [0, 0, 0]
    rows = sqlite3.connect(tmp_path / FILE).execute("SELECT count(*) FROM outcomes").fetchone()[0]
    assert rows == 16
    found = run(em.micro("llama"), em.prompts(), conditions()[:16], config=EngineConfig(store=str(tmp_path)))
    assert found.cached == 16


def test_an_interrupted_run_keeps_what_was_finished(tmp_path, monkeypatch):
    loaded, prompts = em.micro("llama"), em.prompts((9,) * 3)
    monkeypatch.setattr("mechexp.engine.collect.SAVE_EVERY_S", 0.0)

    def stop(done, total):
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(loaded, prompts, conditions(), config=EngineConfig(store=str(tmp_path)), progress=stop)
    found = run(loaded, prompts, conditions(), config=EngineConfig(store=str(tmp_path)))
    assert len(conditions()) // 3 < found.cached < len(conditions())
