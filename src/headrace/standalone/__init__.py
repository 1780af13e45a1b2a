"""Everything in one process: segment store, controller and REST, for laptops, edge boxes and tests."""
