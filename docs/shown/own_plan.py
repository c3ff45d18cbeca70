#!/usr/bin/env python3
"""An engineer's own algorithm as a plan: a ring whose keys go to the left, made from the plan of one that goes right.

    cplab show SCENARIO --json - | docs/shown/own_plan.py > PLAN.json      of a ring with a full mask, forward

Under a full mask all tiles are alike, so only the partners of the messages change.
"""
import json
import sys


def main():
    plan = json.load(sys.stdin)
    P = len(plan["ranks"])
    for rank in plan["ranks"]:
        for op in rank["operations"]:
            for part in op["parts"]:
                step = 1 if part["send"] else -1
                assert part["peer"] == (rank["rank"] + step) % P, "the plan is no ring to the right"
                part["peer"] = (rank["rank"] - step) % P
    json.dump(plan, sys.stdout)


if __name__ == "__main__":
    main()
