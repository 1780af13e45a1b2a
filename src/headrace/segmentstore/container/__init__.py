"""One container: state, transitions, life cycle."""
