"""The test kit, shipped for people who write providers, logs or applications: simulated time, disks and
networks, histories with their checkers, and conformance kits.

Nothing in the product imports it. ``docs/contributing/simulation.md`` says how to use it.
"""
