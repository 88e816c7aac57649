"""The mapping engine: a validated mapping in, a function from record to message parts out.

It knows neither systems nor queues. A record that does not fit is a MappingError, which names
mapping, field, operation and remedy, and never quotes a value.
"""

from connectors.fields.compiled import CompiledMapping, MappedRecord, compile_mapping
from connectors.fields.resolvers import (
    CachingLookup,
    Lookup,
    Reference,
    Resolution,
    resolutions,
)

__all__ = [
    "CachingLookup",
    "CompiledMapping",
    "Lookup",
    "MappedRecord",
    "Reference",
    "Resolution",
    "compile_mapping",
    "resolutions",
]
