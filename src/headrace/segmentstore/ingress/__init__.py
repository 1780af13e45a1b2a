"""The front door of the segment store: connections of the wire protocol. See README.md here."""
