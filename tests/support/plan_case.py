"""Tables that follow a known plan (see ``kill_case``), and whether a store shows them as far as their steps were acknowledged."""

from __future__ import annotations

from support.kill_case import TABLES, Step, new_table
from support.live_model import LiveTable
from support.live_query import Observer
from tsdb.session import Session
from tsdb.settings import Settings
from tsdb.storage.store import Store


class Progress:
    """How far each table's plan was acknowledged, and the models of the tables as of then."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.done = dict.fromkeys(TABLES, 0)
        self.models: dict[str, LiveTable] = {}

    def advance(self, name: str) -> None:
        """One more step of a table."""
        self.done[name] += 1
        step = Step(name, self.done[name], self.seed)
        if step.kind == "create":
            self.models[name] = new_table()
        step.apply(self.models[name])

    def settle(self, store: Store) -> None:
        """What the store shows is the plan up to the last acknowledged step of each table, or the one after it."""
        observer = Observer(Session(store, Settings(threads=1)))
        for name in TABLES:
            following = Step(name, self.done[name] + 1, self.seed)
            if following.kind == "create":
                if name in store.tables():
                    self.advance(name)
                continue
            try:
                observer.check_table(name, self.models[name])
            except AssertionError as error:
                self.advance(name)
                try:
                    observer.check_table(name, self.models[name])
                except AssertionError as second:
                    second.add_note(f"table {name}, step {following.number} ({following.kind}); without it: {error}")
                    raise
