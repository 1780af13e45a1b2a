"""The REST interface of a controller, probes of health and metrics: what HTTP asks and is answered."""
