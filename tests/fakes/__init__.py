"""Stateful stand-ins for what lies outside the process, each true to the real part's contract."""
