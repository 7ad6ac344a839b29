"""The engine with one cell's prompts and settings, and a count of what was measured."""

from collections.abc import Sequence

from mechexp import engine
from mechexp.engine.baselines import obstacle
from mechexp.engine.condition import Condition, Outcome
from mechexp.engine.edit import KINDS
from mechexp.models import LoadedModel
from mechexp.progress import Advance, JobProgress
from mechexp.protocols.conditions import Part
from mechexp.schema import Config
from mechexp.tasks.prompts import PromptSet


class Meter:
    """Measures conditions on a cell's prompts.

    Args:
        loaded: The model.
        test_half: Prompts that effects are measured on.
        reference: Prompts that mean values come from: the screen half.
        cfg: Engine settings, seed, resume.
        progress: Told what is being measured.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        test_half: PromptSet,
        reference: PromptSet,
        cfg: Config,
        progress: JobProgress,
    ) -> None:
        self._loaded, self._prompts, self._reference = loaded, test_half, reference
        self._cfg, self.progress = cfg, progress
        self.conditions = self.cached = 0
        self.needed_flops = 0.0
        self.notes: list[str] = []

    def clean(self) -> Outcome:
        """The unablated model's answers."""
        with self.progress.stage("clean model", "clean_s") as advance:
            return self._run([Condition()], advance)[0]

    def measure(self, parts: Sequence[Part]) -> tuple[tuple[Part, Outcome], ...]:
        """Measure what is asked, each distinct condition once."""
        what = f"measuring {len(parts)} head sets on {len(self._prompts)} prompts"
        with self.progress.stage(what, "ablate_s") as advance:
            return tuple(zip(parts, self._run([p.condition for p in parts], advance), strict=True))

    def other_kinds(self) -> tuple[str, ...]:
        """Kinds of ablation for ``ablation.sensitivity``; those these prompts cannot give are noted."""
        ablation = self._cfg.ablation
        if not ablation.sensitivity:
            return ()
        others = {k: obstacle(k, self._prompts, self._reference) for k in KINDS if k != ablation.name}
        self.notes += [
            f"sensitivity to ablation={k} was not measured: {why}" for k, why in others.items() if why
        ]
        return tuple(k for k, why in others.items() if not why)

    def counts(self) -> dict[str, float]:
        """What was measured, for the timing of the result."""
        return {
            "conditions": self.conditions,
            "cached_conditions": self.cached,
            "needed_flops": self.needed_flops,
        }

    def _run(self, conditions: list[Condition], advance: Advance) -> tuple[Outcome, ...]:
        found = engine.run(
            self._loaded,
            self._prompts,
            conditions,
            reference=self._reference,
            seed=self._cfg.seed,
            config=self._cfg.engine,
            resume=self._cfg.resume,
            progress=advance,
        )
        self.conditions += len({c.key for c in conditions})
        self.cached += found.cached
        self.needed_flops += found.needed_flops
        self.notes += [note for note in found.notes if note not in self.notes]
        return found.outcomes
