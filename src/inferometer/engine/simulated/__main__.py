"""`python -m inferometer.engine.simulated FLAGS`: serve until told to stop."""

from __future__ import annotations

import sys

from inferometer.engine.simulated.options import parse_options
from inferometer.engine.simulated.server import serve
from inferometer.errors import InferometerError


def main() -> int:
    """Exit code of the process."""
    try:
        serve(parse_options(sys.argv[1:]))
    except InferometerError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
