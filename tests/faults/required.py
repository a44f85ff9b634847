"""What a test needs beside the program.

Somebody's own machine may lack it, and skips. CI may not: ctest sets FALAJ_REQUIRED, and what the
build, tools/setup or tools/peers bring is then demanded, so that no suite passes by not being run.
"""

import functools
import os
import unittest

REQUIRED = os.environ.get("FALAJ_REQUIRED") == "1"


def needs(there, what):
    """Decorates a test or a class of them. `what`: what is missing, in words."""
    if there:
        return lambda case: case
    if not REQUIRED:
        return unittest.skip(what)

    def fail(*_):
        raise AssertionError(f"{what}, and FALAJ_REQUIRED is set")

    def decorate(case):
        if isinstance(case, type):
            case.setUpClass = classmethod(fail)
            return case
        return functools.wraps(case)(fail)

    return decorate
