"""The command `toolorchestra experts fit`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from toolorchestra.cli.experts_options import CatalogOptions
from toolorchestra.cli.options import UsageError
from toolorchestra.cli.output import print_json, with_folder, write_text

if TYPE_CHECKING:
    from toolorchestra.agents.experts.fit import Fit

_PLAIN: dict[str, dict[str, None]] = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}
"""Metadata left out of a plot, so that the same fit gives the same file."""


@dataclass(kw_only=True)
class FitExpertCommand(CatalogOptions):
    """Fit an expert to answers: print the YAML of its entry, and how certain each figure is."""

    answers: Annotated[Positional[Path], arg(metavar="ANSWERS")]
    """JSONL file of answers, of other experts too: {expert, key, right, sample, subject, steps, difficulty, notes,
    tokens, seconds, prompt_tokens, role}, of which the first three are needed."""
    name: str
    """The expert, as the file calls it."""
    like: str | None = None
    """Entry with the figures that the answers do not give; by default that of the same name, if there is one."""
    shared_noise: float = 0.2
    """Share of the noise common to all experts, assumed where no other expert answered the same problems."""
    out: Annotated[Path | None, arg(metavar="FILE")] = None
    """Write the YAML here; it is a catalogue file."""
    plot: Annotated[Path | None, arg(metavar="FILE")] = None
    """Plot observed and predicted accuracy by subject and steps (.png, .pdf or .svg; needs matplotlib)."""
    json: bool = False
    """Print the fit as JSON instead."""

    def __post_init__(self) -> None:
        if not 0 <= self.shared_noise < 1:
            raise UsageError(f"--shared-noise must be at least 0 and below 1, got {self.shared_noise:g}.")
        if self.plot and self.plot.suffix not in (".png", ".pdf", ".svg"):
            raise UsageError(f"--plot writes .png, .pdf or .svg, got {self.plot}.")

    def run(self) -> int:
        """Fit, and print or write the entry."""
        from toolorchestra.agents.experts.evaluation import read_answers
        from toolorchestra.agents.experts.fit import plot_fit
        from toolorchestra.agents.experts.fitting import fit_expert
        from toolorchestra.toolscale.yaml_reader import dump_yaml

        catalog = self._catalog()
        rows = read_answers(self.answers)
        known = catalog.experts.get(self.name)
        base = catalog.spec(self.like) if self.like else known
        fit = fit_expert(rows, self.name, base, shared_noise=self.shared_noise)
        if self.plot:
            plot_fit(fit).savefig(with_folder(self.plot), dpi=120, metadata=_PLAIN.get(self.plot.suffix))
        entry = dump_yaml({"experts": {self.name: fit.entry(base, new=base is not known)}})
        if self.out:
            write_text(self.out, entry)
        if self.json:
            return print_json(fit)
        if not self.out:
            print(entry, end="")
        _explain(fit)
        return 0


def _explain(fit: Fit) -> None:
    """Print on standard error how certain each figure is."""
    from rich.console import Console

    from toolorchestra.cli.display import key, numbers, plain_table

    table = plain_table(key("figure"), *numbers("fitted", "95 % interval"))
    for path, one in fit.estimates.items():
        if one.fitted:
            table.add_row(path, f"{one.value:.4g}", f"{one.low:.4g} – {one.high:.4g}")
    console = Console(stderr=True, highlight=False)
    console.print(table)
    within = sum(cell.interval[0] <= cell.predicted <= cell.interval[1] for cell in fit.cells)
    console.print(
        f"\n{fit.answers:,} answers to {fit.problems:,} problems; what is predicted lies in the 95 % interval of what "
        f"was observed for {within} of {len(fit.cells)} subjects and lengths.",
        markup=False,
    )
    for remark in fit.remarks:
        console.print(remark, style="yellow", markup=False)
