"""Prints the requirements of an installed distribution on this machine, except the named ones: `requirements_of.py DISTRIBUTION [EXCEPT]…`."""

import importlib.metadata
import sys

from packaging.requirements import Requirement

distribution, *left_out = sys.argv[1:]
for requirement in map(Requirement, importlib.metadata.requires(distribution)):
    if requirement.name not in left_out and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
        requirement.marker = None
        print(requirement)
