"""The command `toolorchestra recipes`: the papers' trainings as files of options, which ship with the library."""

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from toolorchestra.algos.options.config_files import ConfigFile, recipe_file, recipe_names


@dataclass
class RecipesCommand:
    """List the recipes, which `train --config NAME` runs; or print one, to be changed and run as a file."""

    name: Annotated[Positional[str | None], arg(metavar="NAME")] = None
    """The recipe to print."""

    def run(self) -> int:
        """Print the list, or the file."""
        if self.name:
            print(recipe_file(self.name).read_text(encoding="utf-8"), end="")
            return 0
        width = max(map(len, recipe_names()))
        for name in recipe_names():
            recipe = ConfigFile.read(recipe_file(name))
            print(f"{name:{width}}  {recipe.learner:10}  {recipe.values['about']['title']}")
        return 0
