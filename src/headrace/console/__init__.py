"""Pages for people who look at a server in a browser: streams, their segments over time, events, state."""
