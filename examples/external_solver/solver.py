"""A stand-in for a solver: the sideways deflection of a slightly crooked column under load, by Newton's method.

    python3 solver.py input.json output.json

Below the critical load the column stays nearly straight, above it buckles: calm here, steep there. Where Newton's method does not
converge the results file begins with "fail", as many solvers do it.
"""

import json
import sys

TOLERANCE, MOST_STEPS = 1e-10, 40


def deflection(load: float, crookedness: float) -> float:
    """The a > 0 with a³ + (1 − load)·a = crookedness; load is in units of the critical one."""
    a = 2.0
    for _ in range(MOST_STEPS):
        residual = a**3 + (1 - load) * a - crookedness
        if abs(residual) < TOLERANCE:
            return a
        a -= residual / (3 * a**2 + 1 - load)
    raise ArithmeticError(f"no convergence after {MOST_STEPS} steps, residual {residual:.2g}")


def main() -> None:
    source, target = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        inputs = json.load(file)
    try:
        result = json.dumps({"deflection": deflection(inputs["load"], inputs["crookedness"])})
    except (ArithmeticError, OverflowError) as error:
        result = f"FAILED: {error}"
    with open(target, "w", encoding="utf-8") as file:
        file.write(result + "\n")


if __name__ == "__main__":
    main()
