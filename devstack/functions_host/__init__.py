"""A local Functions host: what Azure's host does for our app, on one machine and without Azure.

It knows triggers, settings and the worker's wire, and nothing of the app that it runs: the app
is a folder with a `function_app.py`, given by its path.
"""
