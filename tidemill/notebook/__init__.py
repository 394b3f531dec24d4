"""What a run shows in a notebook: tables that stay up to date."""
