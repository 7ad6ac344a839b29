"""Other ways to run a model than torch hooks on this machine."""
