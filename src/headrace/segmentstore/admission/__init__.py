"""Whether bytes may enter: one fair queue for each container's log, a lane for urgent requests, a throttle.

``log_admission`` decides for one log: by frames (bytes that are received and not durable), by memory (bytes
that are unstored, and what the cache has free) and by the throttle. ``fair_queue`` is the order in which
connections and requests wait.
"""
