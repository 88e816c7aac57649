"""Answers of Azure Tables that no local server gives, as a transport of the SDK."""

import io
import json
from types import TracebackType
from typing import Any, Self

from azure.core.pipeline.transport import HttpRequest, HttpTransport
from azure.core.rest._requests_basic import RestRequestsTransportResponse
from requests import Response
from requests.structures import CaseInsensitiveDict
from urllib3 import HTTPResponse


class Canned(HttpTransport[HttpRequest, Any]):
    """Answers each request by `answer`."""

    def __init__(self) -> None:
        self.asked = 0

    def answer(self, request: HttpRequest) -> tuple[int, dict[str, str], object]:
        raise NotImplementedError

    def send(self, request: HttpRequest, **_: object) -> Any:
        self.asked += 1
        status, headers, body = self.answer(request)
        response = Response()
        response.status_code = status
        response.headers = CaseInsensitiveDict({"Content-Type": "application/json", **headers})
        content = io.BytesIO(json.dumps(body).encode())
        response.raw = HTTPResponse(body=content, preload_content=False)
        return RestRequestsTransportResponse(  # type: ignore[no-untyped-call] # the SDK's own
            request=request, internal_response=response
        )

    def open(self) -> None: ...

    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None: ...


class EmptyFirstPage(Canned):
    """A page of no rows with a continuation, then the rows."""

    def answer(self, request: HttpRequest) -> tuple[int, dict[str, str], object]:
        if "NextPartitionKey" not in request.url:
            headers = {
                "x-ms-continuation-NextPartitionKey": "watermark",
                "x-ms-continuation-NextRowKey": "late",
            }
            return 200, headers, {"value": []}
        return 200, {}, {"value": [{"PartitionKey": "watermark", "RowKey": "late"}]}


class Refusing(Canned):
    """A server in trouble."""

    def answer(self, _: HttpRequest) -> tuple[int, dict[str, str], object]:
        return 503, {}, {"odata.error": {"code": "ServerBusy"}}
