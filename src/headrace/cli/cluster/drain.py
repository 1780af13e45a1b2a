"""What ``headrace cluster drain`` does: has a store hand over what it has, or takes that back."""

from __future__ import annotations

from headrace.cli.cluster.cluster_session import in_session
from headrace.cli.output import finished, print_json
from headrace.cluster.draining import DrainedStore, ask_to_drain, take_back, wait_drained
from headrace.coordination.contract import Session


def drain_store(
    *, store: str, coordinator: str | None, timeout_s: float, cancel: bool, as_json: bool
) -> None:
    """Drain a store, and wait until it has nothing; or let it be given containers again.

    Raises:
        PreconditionError: there is no such store, nobody could take over, or nobody leads.
        WaitTimeoutError: it still has containers after this time; it goes on.
    """

    async def ask(session: Session) -> DrainedStore:
        if cancel:
            return await take_back(session, store)
        drained = await ask_to_drain(session, store)
        await wait_drained(session, drained, timeout_s)
        return drained

    drained = in_session(coordinator, ask)
    if as_json:
        print_json({"id": drained.store, "address": str(drained.node.endpoint), "drained": not cancel})
    elif cancel:
        finished(f"store {drained.node.endpoint} is given containers again")
    else:
        finished(
            f"store {drained.node.endpoint} has no containers, and gets none until the drain is taken back"
        )
