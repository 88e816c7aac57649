"""From a queue to a target: apply a message, and decide what happens to one that fails."""
