"""Answers every question of ``spherepair ask`` with "unsure"; for ``chaos.py``."""

from __future__ import annotations

import json
import sys
import time


def main() -> None:
    for line in sys.stdin:
        question = json.loads(line)
        time.sleep(0.01)
        print(json.dumps({"number": question["number"], "answer": "unsure"}), flush=True)


if __name__ == "__main__":
    main()
