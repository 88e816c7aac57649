"""Builds the services of the function app, lazily and once.

The only place that reads the environment for the app, and the only one that knows which connector
serves which system. `shared` has what several sides use, each other module one side of the app.
"""

import os

from composition.operation import Operation
from composition.processing import Processing


class Composition(Processing, Operation):
    """The object graph for one environment."""


#: The composition of this process, for the environment that it runs in.
APP = Composition(os.environ)
