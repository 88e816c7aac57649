"""The use cases of the sync connector, one module each.

A service talks to Azure through the SDKs and to remote systems through the Protocols that it
declares itself; it never imports a connector.
"""
