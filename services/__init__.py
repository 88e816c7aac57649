"""The use cases of the sync connector: `detection`, `processing` and `operation`.

What lies beside these three serves all of them. A service talks to Azure through the SDKs and to
remote systems through the Protocols that it declares itself; it never imports a connector.
"""
