"""What is left behind is asked after each module: workers of its sandboxes are replaced by tests."""

from leftovers import nothing_is_left_by_the_module  # noqa: F401 - replaces that of tests/conftest.py
