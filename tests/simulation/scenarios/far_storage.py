"""Long-term storage as an object store is: far away, slow, and every write a new object."""

from __future__ import annotations

import dataclasses
from typing import Final

from headrace.limits import KIB
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.object_store_faults import ObjectStoreFaults
from tests.simulation.reduction import Reduction
from tests.simulation.scenarios.container_profile import ContainerProfile

TIDY_S: Final = 20.0
"""Several intervals in which garbage and orphans are looked for."""

#: What goes wrong there. All may be left out of a run.
TROUBLES: Final = ("refused", "lost_replies", "slow_calls", "broken", "strangers", "storm")


def draw_far(profile: ContainerProfile, entropy: SeededEntropy, reduction: Reduction) -> ContainerProfile:
    """Return the profile with storage that cannot append, of chunks up to 4 KiB, and a log in files."""
    draw = entropy.randbelow

    def rate(name: str, high: int) -> int:
        drawn = draw(high) if draw(3) else 0
        return 0 if name in reduction.without else drawn

    storm_every_s, storm_s = ((3.0, 0.7), (60.0, 20.0), (1.0, 0.0))[draw(3)]
    faults = ObjectStoreFaults(
        latency_s_max=(0.0, 0.01, 0.1)[draw(3)],
        refused_per_thousand=rate("refused", 100),
        lost_replies_per_thousand=rate("lost_replies", 60),
        slow_per_thousand=rate("slow_calls", 40),
        broken_per_thousand=rate("broken", 60),
        slow_s_max=(0.5, 8.0, 60.0)[draw(3)],
        strangers_per_thousand=rate("strangers", 20),
        storm_every_s=storm_every_s,
        storm_s=0.0 if "storm" in reduction.without else storm_s,
    )
    container = dataclasses.replace(
        profile.container,
        storage=dataclasses.replace(profile.container.storage, rollover_bytes=(1 * KIB, 4 * KIB)[draw(2)]),
    )
    return dataclasses.replace(
        profile,
        far_storage=faults,
        supports_append=False,
        file_chunks=False,
        file_log=True,
        container=container,
    )


def tidying(profile: ContainerProfile) -> ContainerProfile:
    """Return the profile for an owner that finds every orphan.

    Those of segments that are not active are left to another owner; here all of them are active by the time
    they are looked for.
    """
    config = profile.container
    container = dataclasses.replace(
        config,
        eviction=dataclasses.replace(config.eviction, active_segments_max=1000, eviction_interval_s=TIDY_S),
        storage_writer=dataclasses.replace(config.storage_writer, garbage_interval_s=TIDY_S / 4),
    )
    return dataclasses.replace(profile, container=container)
