"""The story of a fork, told alike by `diff`, by `report.md` and by the page: what was done, to what, why,
and what was left alone and why.

It can be had from the plan, before the fork is written, and from the fork on disk: both give the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vlmopt.fork.lock import Lock, own_version
from vlmopt.report.changes import ChangedFile, changed_files, changed_in_series
from vlmopt.report.wording import build_words, contract_words
from vlmopt.rules import Contract

if TYPE_CHECKING:
    from vlmopt.fork import Fork, LockedPlugin
    from vlmopt.fork.series import Patch
    from vlmopt.plan import Plan
    from vlmopt.sources import InstalledPlugin

APPLIED = "applied"
GUARD = (
    "Beside the patches the fork's vllm/__init__.py checks, when it is imported, that the vLLM beside it is "
    "the one that the fork was made from (vllm/vlmopt_runtime/guard.py)."
)


@dataclass(frozen=True)
class Fact:
    """A line about a recipe. `code`: the values are names in the code, or of recipes."""

    label: str
    values: tuple[str, ...]
    code: bool = True


@dataclass(frozen=True)
class Recipe:
    """One recipe: what it is, and what became of it. `why` is paragraphs."""

    id: str
    title: str
    why: tuple[str, ...]
    contract: str
    bound: float | None
    status: str
    reason: str
    needs: tuple[str, ...]
    files: tuple[str, ...]
    brings: tuple[str, ...]

    def facts(self) -> list[Fact]:
        """What there is to know of it, beside what and why."""
        bound = f" ({self.bound:g})" if self.bound else ""
        facts = [
            Fact("Contract", (self.contract + bound,), code=False),
            Fact("Needs", self.needs),
            Fact("Files", self.files),
            Fact("Brings", self.brings),
            Fact("Note", (self.reason,) if self.reason else (), code=False),
        ]
        return [fact for fact in facts if fact.values]


@dataclass(frozen=True)
class Outside:
    """The package outside of vLLM that the fork overlays too; `words` are its name, version and place."""

    package: str
    words: str


@dataclass(frozen=True)
class Story:
    """All of it. `files` are those that differ from stock, `new_files` those that are added.

    `plugin` is the package that the model comes from, where it is not vLLM's own.
    """

    vlmopt: str
    vllm: str
    location: str
    kind: str
    spec: str
    title: str
    architecture: str
    hub: str
    recipes: tuple[Recipe, ...]
    files: tuple[ChangedFile, ...]
    new_files: tuple[str, ...]
    plugin: Outside | None = None

    @property
    def applied(self) -> list[Recipe]:
        return [each for each in self.recipes if each.status == APPLIED]

    @property
    def left(self) -> list[Recipe]:
        return [each for each in self.recipes if each.status != APPLIED]

    @property
    def headline(self) -> str:
        """The model and the vLLM."""
        return f"{self.title} on vLLM {self.vllm}"

    @property
    def origin(self) -> str:
        """Who wrote the fork, and from what."""
        return (
            f"Written by vlmopt {self.vlmopt} from {self.location} ({self.kind}), for the spec {self.spec} "
            f"({self.architecture}{f', a model of {self.plugin.words}' if self.plugin else ''})."
        )

    @property
    def summary(self) -> str:
        """How much was done."""
        added, removed = sum(f.added for f in self.files), sum(f.removed for f in self.files)
        return (
            f"{len(self.applied)} of {len(self.recipes)} recipes were applied. Files of {self._owners} that "
            f"change: {len(self.files)} (+{added} -{removed}). New files: {len(self.new_files)}."
        )

    @property
    def promises(self) -> list[str]:
        """What the applied recipes' contracts promise, each once."""
        return [
            contract_words(Contract(name)) for name in dict.fromkeys(each.contract for each in self.applied)
        ]

    @property
    def commands(self) -> list[tuple[str, str]]:
        """What for, and the command; FORK stands for the fork's folder."""
        return [
            ("Serve with it", f"vlmopt run FORK -- vllm serve {self.hub or 'MODEL'}"),
            ("Prove it equal to stock", "vlmopt verify FORK"),
            ("Measure it against stock", "vlmopt bench FORK"),
            ("Pack it", "vlmopt wheel FORK --out dist/"),
            *self._patch_commands,
        ]

    @property
    def guard(self) -> str:
        """What the fork checks when it is imported."""
        return GUARD if self.plugin is None else f"{GUARD} The same goes for {self.plugin.words}."

    @property
    def _owners(self) -> str:
        return "vLLM" if self.plugin is None else f"vLLM and {self.plugin.package}"

    @property
    def _patch_commands(self) -> list[tuple[str, str]]:
        what, command = "Take the patches alone, on a checkout of this release", "git am FORK/patches/*.patch"
        if self.plugin is None:
            return [(what, command)]
        package = self.plugin.package
        return [
            (what, f"git apply --exclude='{package}/*' FORK/patches/*.patch"),
            (f"The same in {package}'s sources", f"git apply --include='{package}/*' FORK/patches/*.patch"),
        ]


def story_of_plan(plan: Plan) -> Story:
    """The story of a fork that is about to be written."""
    return Story(
        vlmopt=own_version(),
        vllm=build_words(plan.tree.version, plan.tree.build),
        location=plan.tree.location,
        kind=plan.tree.kind,
        spec=plan.spec.name,
        title=plan.spec.title,
        architecture=plan.spec.architecture,
        hub=plan.spec.hub[0] if plan.spec.hub else "",
        recipes=tuple(
            Recipe(
                id=each.rule.id,
                title=each.rule.title,
                why=_paragraphs(each.rule.why),
                contract=each.rule.contract.value,
                bound=each.rule.bound,
                status=each.status.value,
                reason=each.reason,
                needs=tuple(each.rule.needs),
                files=tuple(each.files),
                brings=tuple(each.rule.runtime),
            )
            for each in plan.rules
        ),
        files=tuple(changed_files(plan)),
        new_files=tuple(sorted(plan.runtime_files)),
        plugin=_outside(plan.plugin),
    )


def story_of_fork(fork: Fork, patches: Mapping[str, Patch]) -> Story:
    """The story of a fork on disk; `patches` is its whole series."""
    lock = fork.lock
    return Story(
        vlmopt=lock.vlmopt,
        vllm=build_words(lock.vllm["version"], lock.vllm["build"]),
        location=lock.vllm.get("location", "vLLM"),
        kind=lock.vllm["kind"],
        spec=lock.spec["name"],
        title=lock.spec.get("title", lock.spec["name"]),
        architecture=lock.spec.get("architecture", "unknown"),
        hub=lock.spec.get("hub", ""),
        recipes=_recipes(lock, patches),
        files=tuple(changed_in_series(fork, patches)),
        new_files=tuple(sorted(f.path for patch in patches.values() for f in patch.files if f.is_new)),
        plugin=_outside(lock.plugin),
    )


def _outside(plugin: InstalledPlugin | LockedPlugin | None) -> Outside | None:
    return None if plugin is None else Outside(plugin.package, plugin.words)


def _recipes(lock: Lock, patches: Mapping[str, Patch]) -> tuple[Recipe, ...]:
    # The lock of an earlier vlmopt lacks title and why; then they are those of the patch.
    return tuple(
        Recipe(
            id=rule.id,
            title=rule.title or (patches[rule.id].title.partition(": ")[2] if rule.id in patches else ""),
            why=_paragraphs(rule.why or (patches[rule.id].why if rule.id in patches else "")),
            contract=rule.contract,
            bound=rule.bound,
            status=rule.status,
            reason=rule.reason,
            needs=rule.needs,
            files=tuple(rule.files),
            brings=rule.brings,
        )
        for rule in lock.rules
    )


def _paragraphs(text: str) -> tuple[str, ...]:
    """Paragraphs without their line breaks."""
    return tuple(" ".join(part.split()) for part in text.split("\n\n") if part.strip())
