from .shipped import recipe_file as recipe_file, recipe_names as recipe_names
