"""tidemill."""
