"""A coordinator over Apache ZooKeeper, through kazoo, which nothing else imports."""
