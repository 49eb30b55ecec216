"""A scheduler in one JSON file, with a program for each verb: python toy_scheduler.py FILE VERB.

`mode` in the file makes every program fail (`down`) or hang (`frozen`). Stands alone: it runs
without the project on its path.
"""

import fcntl
import json
import sys
import time
from pathlib import Path


def main(file: str, verb: str) -> int:
    with Path(file).open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        world = json.load(held)
        if world["mode"] == "frozen":
            fcntl.flock(held, fcntl.LOCK_UN)
            time.sleep(600)
        if world["mode"] == "down":
            print("the toy scheduler is down", file=sys.stderr)
            return 1
        given = json.load(sys.stdin) if verb not in ("nodes", "queue") else {}
        answer = obey(world, verb, given)
        held.seek(0)
        held.truncate()
        json.dump(world, held)
    if answer:
        print(answer)
    return 0


def obey(world: dict, verb: str, given: dict) -> str:
    """What the program prints; changes `world`."""
    nodes, jobs = world["nodes"], world["jobs"]
    if verb == "nodes":
        return json.dumps({"nodes": list(nodes.values())})
    if verb == "queue":
        waiting = [job for job in jobs.values() if job["node"] is None]
        waiting.sort(key=lambda job: -job["priority"])
        keys = ("id", "cores", "ram_mb")
        return "\n".join(json.dumps({key: job[key] for key in keys}) for job in waiting)
    if verb in ("comment", "cancel"):
        if given["job"] not in jobs:
            return json.dumps({"refused": f"no job {given['job']}"})
        if verb == "cancel":
            del jobs[given["job"]]
        else:
            jobs[given["job"]]["comment"] = given["text"]
        return ""
    node = nodes.get(given["node"])
    if node is None:
        return json.dumps({"refused": f"no node {given['node']}"})
    if verb == "drain":
        node |= {"draining": True, "reason": given["reason"]}
    elif verb == "resume":
        node |= {"draining": False, "reason": ""}
        if node["state"] == "down":
            node["state"] = "idle"
    elif verb == "down":
        node |= {"state": "down", "draining": False, "reason": given["reason"]}
        for job in jobs.values():
            if job["node"] == given["node"]:
                job["node"] = None
    elif verb == "describe":
        gone = given.get("drop", [])
        others = [one for one in node["features"] if not one.startswith("instancetype=")]
        others = [one for one in others if one not in gone]
        node |= {"weight": given["weight"], "features": [*others, *given["features"]]}
    return ""


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
