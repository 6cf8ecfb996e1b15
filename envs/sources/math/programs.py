"""Programs that solve families of mathematical problems: what teachers of several protocols know."""

PROGRAMS = {"power_remainder": "print(pow({a}, {n}, {m}))", "other_number": "print({g} * {lcm} // {a})"}
"""Programs of families of problems, over what is given in them; they print the answer."""
