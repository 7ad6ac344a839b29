"""Answer metrics from the logits at the end position, always in fp32.

Legend: P prompt, V vocabulary, A answer (targets or distractors of one prompt, padded).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from mechexp.errors import UserError
from mechexp.tasks.prompts import PromptSet


@dataclass(frozen=True)
class Answers:
    """Targets and distractors of prompts, padded to rectangles.

    Attributes:
        target_PA: Token ids of the right answers; padding repeats the first.
        target_mask_PA: 1 where ``target_PA`` is not padding.
        distractor_PA: Token ids of the wrong answers, likewise.
        distractor_mask_PA: Likewise.
    """

    target_PA: torch.Tensor
    target_mask_PA: torch.Tensor
    distractor_PA: torch.Tensor
    distractor_mask_PA: torch.Tensor

    @classmethod
    def of(cls, prompts: PromptSet, device: torch.device | str = "cpu") -> "Answers":
        """Pad the answers of ``prompts``.

        Raises:
            UserError: A prompt without target or distractor, or an id named twice or on both sides.
        """
        for i, (right, wrong) in enumerate(zip(prompts.targets, prompts.distractors, strict=True)):
            if not right or not wrong or len({*right, *wrong}) != len(right) + len(wrong):
                raise UserError(
                    f"targets {list(right)} and distractors {list(wrong)} (token ids)",
                    where=f"prompt {i} of task {prompts.task}: {prompts.texts[i].prompt!r}",
                    expected="at least one of each, every id once and on one side",
                )
        target, target_mask = _pad(prompts.targets, device)
        distractor, distractor_mask = _pad(prompts.distractors, device)
        return cls(target, target_mask, distractor, distractor_mask)

    def take(self, rows: torch.Tensor) -> "Answers":
        """The answers of the prompts ``rows`` (int64), in that order; repeats allowed."""
        return Answers(
            self.target_PA[rows],
            self.target_mask_PA[rows],
            self.distractor_PA[rows],
            self.distractor_mask_PA[rows],
        )


def _pad(ids: Sequence[Sequence[int]], device: torch.device | str) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(len(row) for row in ids)
    padded = [[*row, *[row[0]] * (width - len(row))] for row in ids]
    mask = [[1.0] * len(row) + [0.0] * (width - len(row)) for row in ids]
    return torch.tensor(padded, device=device), torch.tensor(mask, device=device)


@dataclass(frozen=True)
class Scores:
    """Metrics of P prompts under one condition, as arrays (P,); meanings as in ``Outcome``."""

    top1: np.ndarray
    logit_diff: np.ndarray
    prob_diff: np.ndarray
    target_rank: np.ndarray

    def rows(self, rows: slice) -> "Scores":
        """The entries of ``rows``."""
        return Scores(self.top1[rows], self.logit_diff[rows], self.prob_diff[rows], self.target_rank[rows])


def score(logits_PV: torch.Tensor, answers: Answers) -> Scores:
    """Judge end-position logits.

    Args:
        logits_PV: Logits at the position that is read, any floating dtype.
        answers: The answers of the same P prompts, on the same device.

    Returns:
        ``top1``: argmax over the vocabulary is a target. ``logit_diff``: mean target logit − mean distractor
        logit. ``prob_diff``: Σ P(targets) − Σ P(distractors). ``target_rank``: how many vocabulary entries
        have a higher logit than the best target.
    """
    logits_PV = logits_PV.float()
    target = logits_PV.gather(1, answers.target_PA)
    distractor = logits_PV.gather(1, answers.distractor_PA)
    right, wrong = answers.target_mask_PA, answers.distractor_mask_PA
    log_norm = logits_PV.logsumexp(dim=1, keepdim=True)
    best = target.masked_fill(right == 0, -torch.inf).amax(dim=1, keepdim=True)
    argmax = logits_PV.argmax(dim=1, keepdim=True)
    return Scores(
        top1=((answers.target_PA == argmax) & (right > 0)).any(dim=1).cpu().numpy(),
        logit_diff=(_mean(target, right) - _mean(distractor, wrong)).cpu().numpy(),
        prob_diff=_difference((target - log_norm).exp() * right, (distractor - log_norm).exp() * wrong),
        target_rank=(logits_PV > best).sum(dim=1).cpu().numpy(),
    )


def _mean(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (values * mask).sum(dim=1) / mask.sum(dim=1)


def _difference(right: torch.Tensor, wrong: torch.Tensor) -> np.ndarray:
    difference: np.ndarray = (right.sum(dim=1) - wrong.sum(dim=1)).cpu().numpy()
    return difference
