"""Pictures of a dataflow: its layout, SVG, the explorer's page, and text for other people's tools."""
