"""Cases that are played on the wire: how they are recorded from a broker, and how they are played."""
