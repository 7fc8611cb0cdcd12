"""Golden outputs: what a third party gives, written down; stock and forks are held against it."""
