"""Two stores that only do what the reconciler says, in any order, with answers that get lost.

Whatever happens: at most one serves, and it knows all that was acknowledged. Once the map stays as it is, the
store that it names serves.
"""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from headrace.cluster.claim_node import Claim
from headrace.cluster.observed import Local, Phase, Unsure
from headrace.cluster.reconciler import COURTESY_S, Step, next_step

STORES = ("a", "b")


class World:
    """One container: its log and its claim, and what each store knows of them."""

    def __init__(self):
        self.claim = None
        self.container_epoch = self.acknowledged = 0
        """Of the log: its newest owner, and the newest that has acknowledged something."""
        self.wanted = "a"
        self.now_s = 0.0
        self.local = {store: Local() for store in STORES}
        self.map_seen = dict.fromkeys(STORES, "a")
        self.claim_seen = dict.fromkeys(STORES, Unsure.UNKNOWN)

    def look(self, store):
        self.map_seen[store] = self.wanted
        self.claim_seen[store] = self.claim

    def step(self, store, lost):
        """Do the next step of a store; ``lost``: without learning what came of a write."""
        local, claim = self.local[store], self.claim_seen[store]
        wanted = self.map_seen[store] == store
        waits = wanted and isinstance(claim, Claim) and claim.store != store
        local = replace(local, waits_since_s=(local.waits_since_s or self.now_s) if waits else None)
        step = next_step(store, wanted, claim, local, self.now_s)
        if step is Step.LOOK:
            self.look(store)
        elif step is Step.GIVE:
            self.container_epoch += 1
            local = replace(local, phase=Phase.RECOVERED, container_epoch=self.container_epoch)
        elif step is Step.TAKE:
            local = replace(local, phase=Phase.NONE)
        elif step is Step.CLAIM:
            local = replace(local, phase=Phase.RECOVERED)
            mine = Claim(store, local.container_epoch)
            if self.claim is None:
                self.claim = mine
            self.claim_seen[store] = mine if self.claim is mine and not lost else Unsure.UNKNOWN
        elif step is Step.DROP:
            assert local.phase is not Phase.SERVING or local.container_epoch != claim.container_epoch
            local = replace(local, phase=Phase.RECOVERED) if local.phase is Phase.SERVING else local
            if self.claim is not None and self.claim.store == store:
                self.claim = None
            self.claim_seen[store] = Unsure.UNKNOWN if lost else None
        elif step is Step.SERVE:
            owns = local.container_epoch == self.container_epoch
            local = replace(local, phase=Phase.SERVING if owns else Phase.FENCED)
            if not owns:
                self.claim_seen[store] = Unsure.UNKNOWN
        elif step is Step.REPORT_FAILURE:
            local = replace(local, reported=local.failures)
        self.local[store] = local
        return step

    def end(self, store, phase):
        """It has failed, or it notices that it was fenced."""
        local = self.local[store]
        if local.phase in {Phase.RECOVERED, Phase.SERVING}:
            if phase is Phase.FENCED and local.container_epoch == self.container_epoch:
                return
            failures = local.failures + (phase is Phase.FAILED)
            self.local[store] = replace(local, phase=phase, failures=failures, retry_at_s=self.now_s + 1)
            self.claim_seen[store] = Unsure.UNKNOWN

    def write(self, store):
        """Acknowledge something, if the store serves and has the log."""
        local = self.local[store]
        if local.phase is Phase.SERVING and local.container_epoch == self.container_epoch:
            self.acknowledged = self.container_epoch

    def check(self):
        serving = [store for store in STORES if self.local[store].phase is Phase.SERVING]
        assert len(serving) <= 1
        for store in serving:
            assert self.claim == Claim(store, self.local[store].container_epoch)
            assert self.acknowledged <= self.local[store].container_epoch  # what it has not recovered


moves = st.one_of(
    st.tuples(st.just("step"), st.sampled_from(STORES), st.booleans()),
    st.tuples(st.just("go"), st.sampled_from(STORES), st.just(False)),
    st.tuples(st.just("look"), st.sampled_from(STORES), st.just(False)),
    st.tuples(st.just("map"), st.sampled_from(STORES), st.just(False)),
    st.tuples(st.just("fail"), st.sampled_from(STORES), st.just(False)),
    st.tuples(st.just("fenced"), st.sampled_from(STORES), st.just(False)),
    st.tuples(st.just("write"), st.sampled_from(STORES), st.just(False)),
    st.tuples(st.just("time"), st.sampled_from(STORES), st.just(False)),
)


def test_a_store_that_was_passed_over_unseen_asks_the_log_before_it_serves():
    """Another one has opened the log, served and left while it was about to claim."""
    world = World()
    world.look("a")
    assert world.step("a", False) is Step.GIVE
    world.wanted = "b"
    for _ in range(4):
        world.look("b")
        world.step("b", False)
    world.write("b")
    assert world.acknowledged == 2
    world.wanted = "a"
    for _ in range(2):
        world.look("b")
        world.step("b", False)
    assert [world.step("a", False) for _ in range(2)] == [Step.CLAIM, Step.SERVE]
    world.check()
    assert world.local["a"].phase is Phase.FENCED


@given(st.lists(moves, max_size=60))
def test_two_stores_never_both_serve_and_the_wanted_one_does_in_the_end(sequence):
    world = World()
    for what, store, lost in sequence:
        if what == "step":
            world.step(store, lost)
        elif what == "go":
            for _ in range(5):
                world.look(store)
                world.step(store, lost)
                world.check()
            world.write(store)
        elif what == "look":
            world.look(store)
        elif what == "map":
            world.wanted = store
        elif what == "write":
            world.write(store)
        elif what == "time":
            world.now_s += COURTESY_S / 3
        else:
            world.end(store, Phase.FAILED if what == "fail" else Phase.FENCED)
        world.check()
    for _ in range(20):
        for store in STORES:
            world.look(store)
            world.step(store, False)
            world.end(store, Phase.FENCED)
            world.check()
        world.now_s += 1
    assert world.local[world.wanted].phase is Phase.SERVING
    other = world.local["ab"[world.wanted == "a"]]
    assert other.phase not in {Phase.SERVING, Phase.RECOVERED, Phase.STARTING}
