"""A team behind an OpenAI-compatible endpoint, and a page to ask it and to watch runs."""
