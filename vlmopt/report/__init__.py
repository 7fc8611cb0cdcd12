"""How results are shown: tables on a terminal, Markdown in a fork, one HTML page, JSON objects."""
