"""What every process serves over HTTP, whatever its parts are: a listener, health, metrics, refusals."""
