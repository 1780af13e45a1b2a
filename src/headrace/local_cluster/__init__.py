"""A whole cluster on one machine: ZooKeeper, controllers and segment stores, started, watched and ended."""
