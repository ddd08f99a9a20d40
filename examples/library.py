"""Asks a recorded store from Python, first with plain functions, then on an event loop."""

import asyncio

from turnstate import CheckpointHistory, aio, open_store, read, turns

KEY = "gazet/get_aoi/bbox"

with open_store("fixtures/demo-pruned.db") as store:
    for turn in turns(store, "demo").turns:
        found = read(store, "demo", KEY, turn.turn)
        print(turn.turn, found.outcome, found.value, found.turns_written)


async def main() -> None:
    async with aio.open_store("fixtures/demo.db") as store:
        print((await aio.diff(store, "demo", "plan", turns=(1, 3))).changes[0].new)

    history = CheckpointHistory("fixtures/demo-pruned.db")  # or a saver: CheckpointHistory(saver)
    past = await history.snapshots("demo")
    print(past.total, sorted(past.turns), past.turns[2]["plan"])
    for turn in (1, 2, 7):
        print(turn, (await history.snapshot("demo", turn)).outcome)


asyncio.run(main())
