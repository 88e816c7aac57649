"""A mapping as one function from source record to the parts of a queue message."""

from collections.abc import Mapping as Record
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from connectors.fields.copying import Copy, copier, encodable
from connectors.fields.keys import KeyReader, key_reader
from connectors.fields.operations import compile_operations
from connectors.fields.resolvers import Lookup, Resolution, resolutions, resolve
from connectors.fields.steps import Step, Values
from delivery.errors import ConfigurationError, MappingError
from models.mapping import At, Mapping


class MappedRecord(NamedTuple):
    """What a mapping makes of a record; values are Python's, the JSON encoder writes them.

    A field that is not in `fields` is to be left alone, one that is None is to be cleared.
    """

    source_key: str
    keys: dict[str, Any]
    fields: dict[str, Any]


class _Draft(NamedTuple):
    source_key: str
    values: Values


@dataclass(frozen=True, slots=True)
class CompiledMapping:
    """Immutable; safe for several threads where its lookup is."""

    name: str
    #: What a source record should hold.
    source_fields: tuple[str, ...]
    _key_names: tuple[str, ...]
    _read_keys: KeyReader
    _copy: Copy
    _steps: tuple[Step, ...]
    _resolutions: tuple[Resolution, ...]
    _lookup: Lookup | None

    def apply(self, record: Record[str, Any]) -> MappedRecord:
        """Map one record; raise MappingError, which never quotes a value."""
        if not self._steps and not self._resolutions:
            source_key, keys = self._read_keys(record)
            return MappedRecord(source_key, encodable(keys), encodable(self._copy(record)))
        if not self._resolutions:
            return self._finish(self._draft(record))
        [result] = self.apply_page([record])
        if isinstance(result, MappingError):
            raise result
        return result

    def apply_page(self, records: Sequence[Record[str, Any]]) -> list[MappedRecord | MappingError]:
        """Map records in their order, an error in the place of one that does not fit.

        Each resolver looks up all of them at once; errors of the lookup itself are raised.
        """
        if not self._resolutions:
            return [self._apply_or_error(record) for record in records]
        results: dict[int, MappedRecord | MappingError] = {}
        drafts: dict[int, _Draft] = {}
        for position, record in enumerate(records):
            try:
                drafts[position] = self._draft(record)
            except MappingError as error:
                results[position] = error
        for resolution in self._resolutions:
            results |= self._resolve(resolution, drafts)
        for position, draft in drafts.items():
            try:
                results[position] = self._finish(draft)
            except MappingError as error:
                results[position] = error
        return [results[position] for position in range(len(records))]

    def _apply_or_error(self, record: Record[str, Any]) -> MappedRecord | MappingError:
        try:
            return self.apply(record)
        except MappingError as error:
            return error

    def _draft(self, record: Record[str, Any]) -> _Draft:
        source_key, values = self._read_keys(record)
        values |= self._copy(record)
        for step in self._steps:
            step(record, values)
        return _Draft(source_key, values)

    def _resolve(
        self, resolution: Resolution, drafts: dict[int, _Draft]
    ) -> dict[int, MappingError]:
        """Resolve one field of all drafts; take those out that have an error, and return it."""
        assert self._lookup is not None  # noqa: S101 - compile_mapping saw to it
        positions = list(drafts)
        page = [draft.values for draft in drafts.values()]
        errors = resolve(resolution, page, self._lookup)
        for index in errors:
            del drafts[positions[index]]
        return {positions[index]: error for index, error in errors.items()}

    def _finish(self, draft: _Draft) -> MappedRecord:
        values = encodable(draft.values)
        keys = {name: values.pop(name) for name in self._key_names}
        if None in keys.values():
            empty = next(name for name, value in keys.items() if value is None)
            msg = f"mapping {self.name!r}, key {empty!r}: is null after the operations; change them"
            raise MappingError(msg)
        return MappedRecord(draft.source_key, keys, values)


def compile_mapping(mapping: Mapping, lookup: Lookup | None = None) -> CompiledMapping:
    """Compile once, apply often; raise ConfigurationError where a lookup is needed and lacking."""
    sources = resolutions(mapping, At.SOURCE)
    if sources and lookup is None:
        msg = (
            f"{sources[0].where}: this source cannot look up references; "
            "set `at: target`, or remove the resolver"
        )
        raise ConfigurationError(msg)
    return CompiledMapping(
        mapping.name,
        mapping.source_fields(),
        tuple(pair.target for pair in mapping.keys),
        key_reader(mapping),
        copier(mapping.fields),
        compile_operations(mapping),
        sources,
        lookup,
    )
