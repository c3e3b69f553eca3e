"""A stand-in for a solver: thrust of a nozzle that chokes at one pressure and separates at wide angles.

python3 nozzle.py input.json output.json
"""

import json
import math
import sys
import time


def thrust(pressure: float, angle: float) -> float:
    choked = 1 / (1 + math.exp(-(pressure - 18) / 0.8))
    divergence = (1 + math.cos(math.radians(angle))) / 2
    separated = 0.25 / (1 + math.exp(-(angle - 22) / 0.6)) * choked
    return 0.12 * pressure * (0.4 + 0.6 * choked) * divergence * (1 - separated)


def main() -> None:
    source, target = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        inputs = json.load(file)
    time.sleep(2.0)  # a solver would take longer
    with open(target, "w", encoding="utf-8") as file:
        json.dump({"thrust": thrust(inputs["pressure"], inputs["angle"])}, file)


if __name__ == "__main__":
    main()
