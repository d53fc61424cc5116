"""Asks two agents and stores texts while the platform is killed and started again; tells what it sees, a JSON line each."""

import json
import threading
import time

from flotilla_client import Flotilla


def tell(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


def ask(fleet: Flotilla, agent: str) -> None:
    with fleet.runs.stream(agent, "Go on.", idempotency_key=f"{agent}-1") as run:
        tell(agent=agent, run=run.run_id)
        for event in run:
            tell(agent=agent, text=event.text)
    result = run.result
    assert result is not None
    tell(agent=agent, status=result.status, code=result.error and result.error.code, attempt=result.attempt)


with Flotilla(agent_id="rover", wait_out_limits=60) as fleet:
    fleet.memory.collections.create("restarts")
    threads = [threading.Thread(target=ask, args=(fleet, agent)) for agent in ("talker", "thinker")]
    for thread in threads:
        thread.start()
    stored: list[str] = []
    number = 0
    while any(thread.is_alive() for thread in threads):
        ids = [f"{number}-{n}" for n in range(20)]
        stored += fleet.memory.remember("restarts", [{"id": one, "text": f"text {one}"} for one in ids])
        number += 1
        tell(stored=len(stored))
        time.sleep(0.05)
    found = {point.id for point in fleet.memory.scroll("restarts", limit=1000)}
    tell(count=len(found), lost=sorted(set(stored) - found))
