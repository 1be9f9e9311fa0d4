"""Charts as inline SVG whose colours follow the page's light or dark theme."""
