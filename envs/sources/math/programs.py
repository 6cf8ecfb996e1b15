"""Programs that solve families of mathematical problems, for the teachers of several protocols."""

PROGRAMS = {"power_remainder": "print(pow({a}, {n}, {m}))", "other_number": "print({g} * {lcm} // {a})"}
"""Programs of families of problems, over what is given in them; they print the answer."""
