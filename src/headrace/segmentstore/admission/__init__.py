"""Whether bytes may enter: one fair line for each container's log, a lane for what must not wait, a throttle.

``log_admission`` decides for one log: by frames (bytes that are received and not durable), by memory (bytes
that are durable and not stored, and what the cache has left) and by the throttle. ``fair_line`` is the order
in which connections and requests wait.
"""
