"""The values that flow through the connector: configuration, messages, watermarks, settings.

No I/O and no Azure SDK in here; what does not validate never gets further.
"""
