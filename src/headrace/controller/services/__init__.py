"""Background work on the streams of a bucket, done by the controller that owns it."""
