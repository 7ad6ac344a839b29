"""Editing and reading z leaves nothing behind and disturbs nobody."""

import pytest
import torch

from mechexp.errors import UserError
from mechexp.models.attention import attention_rows
from mechexp.models.hooks import capture_z, edit_z

IDS = torch.arange(8)[None]


@pytest.fixture
def loaded(own_micro_model):
    return own_micro_model("llama")


def run(loaded):
    with torch.no_grad():
        return loaded.model(input_ids=IDS, use_cache=False).logits


def hook_count(loaded):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in loaded.model.modules())


def test_z_has_the_promised_shape(loaded):
    with capture_z(loaded, [1]) as z:
        run(loaded)
    assert list(z) == [1]
    assert z[1].shape == (1, 8, loaded.n_heads, loaded.head_dim)


def test_hooks_are_gone_afterwards(loaded):
    with edit_z(loaded, {0: torch.zeros_like}), capture_z(loaded):
        run(loaded)
    attention_rows(loaded, IDS)
    assert hook_count(loaded) == 0


def test_hooks_are_gone_after_an_error_in_the_context(loaded):
    plain = run(loaded)
    with pytest.raises(KeyError, match="mine"), edit_z(loaded, {0: torch.zeros_like}), capture_z(loaded):
        raise KeyError("mine")
    assert hook_count(loaded) == 0
    assert torch.equal(run(loaded), plain)


def test_hooks_are_gone_after_an_error_in_the_edit(loaded):
    def broken(z):
        raise ZeroDivisionError("in the edit")

    with (
        pytest.raises(ZeroDivisionError, match="in the edit"),
        edit_z(loaded, {0: torch.zeros_like, 2: broken}),
    ):
        run(loaded)
    assert hook_count(loaded) == 0


def test_hooks_are_gone_when_a_later_layer_does_not_exist(loaded):
    with pytest.raises(IndexError), edit_z(loaded, {0: torch.zeros_like, 99: torch.zeros_like}):
        run(loaded)
    assert hook_count(loaded) == 0


def test_attention_hooks_are_gone_after_an_error(loaded):
    with pytest.raises(IndexError):
        attention_rows(loaded, IDS + 10_000)
    assert hook_count(loaded) == 0


def test_an_edit_that_never_ran_is_an_error(loaded):
    silent = r"edit_z: no forward pass went through layers \[1\]"
    with pytest.raises(RuntimeError, match=silent), edit_z(loaded, {1: torch.zeros_like}):
        pass
    with pytest.raises(RuntimeError, match="capture_z"), capture_z(loaded):
        pass


@pytest.mark.parametrize(
    "edit", [lambda z: z[:, :, :1], lambda z: z.double(), lambda z: z.flatten(-2), lambda z: None]
)
def test_an_edit_that_changes_shape_or_type_is_an_error(loaded, edit):
    with pytest.raises(ValueError, match="edit of layer 0"), edit_z(loaded, {0: edit}):
        run(loaded)


def test_editing_in_place_is_allowed_and_capture_sees_the_edit(loaded):
    def in_place(z):
        z[:, :, 2] = 7.0
        return z

    with edit_z(loaded, {1: in_place}), capture_z(loaded, [1]) as after:
        edited = run(loaded)
    assert (after[1][:, :, 2] == 7).all()

    def fresh(z):
        z = z.clone()
        z[:, :, 2] = 7.0
        return z

    with edit_z(loaded, {1: fresh}):
        assert torch.equal(run(loaded), edited)


def test_what_was_captured_is_not_changed_by_later_edits(loaded):
    def in_place(z):
        return z.mul_(0)

    with capture_z(loaded, [1]) as before, edit_z(loaded, {1: in_place}):
        run(loaded)
    with capture_z(loaded, [1]) as clean:
        run(loaded)
    assert torch.equal(before[1], clean[1])
    assert clean[1].abs().max() > 0


def test_hooks_of_the_user_stay_and_go_on_working(loaded):
    seen = []
    mine = loaded.out_proj(0).register_forward_pre_hook(lambda _m, args: seen.append(args[0].clone()))
    halved = loaded.layers()[1].register_forward_hook(lambda _m, _a, out: out * 0.5)
    with_mine = run(loaded)
    with edit_z(loaded, {0: torch.zeros_like}), capture_z(loaded):
        edited = run(loaded)
    assert len(seen) == 2
    assert not torch.equal(edited, with_mine)
    assert hook_count(loaded) == 2
    assert torch.equal(run(loaded), with_mine)
    halved.remove()
    assert not torch.equal(run(loaded), with_mine)
    mine.remove()


def test_attention_cannot_be_read_under_another_implementation(loaded):
    loaded.model.set_attn_implementation("sdpa")
    with pytest.raises(UserError, match="attn_implementation=sdpa") as caught:
        attention_rows(loaded, IDS)
    assert "model.attn_implementation=eager" in str(caught.value)


def test_sequences_longer_than_the_context_are_refused(loaded):
    with pytest.raises(UserError, match="sequences of 129 tokens") as caught:
        attention_rows(loaded, torch.zeros(1, 129, dtype=torch.long))
    assert "at most 128 tokens" in str(caught.value)
