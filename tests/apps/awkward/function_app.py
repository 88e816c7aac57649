"""HTTP functions whose outcome is hard to bring home. `\\udcff` is half a surrogate pair."""

import asyncio
import logging
import os
import sys

import azure.functions as func

app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)


@app.route("pid")
def pid(req: func.HttpRequest) -> str:
    return str(os.getpid())


@app.route("raises")
def raises(req: func.HttpRequest) -> str:
    raise ValueError("\udcff")


@app.route("answers-header")
def answers_header(req: func.HttpRequest) -> func.HttpResponse:
    return func.HttpResponse("x", headers={"x-a": "\udcff"})


@app.route("returns-async")
async def returns_async(req: func.HttpRequest) -> str:
    return "\udcff"


@app.route("raises-async")
async def raises_async(req: func.HttpRequest) -> str:
    raise ValueError("\udcff")


@app.route("cancels-async")
async def cancels_async(req: func.HttpRequest) -> str:
    raise asyncio.CancelledError


@app.route("exits-async")
async def exits_async(req: func.HttpRequest) -> str:
    sys.exit(3)


@app.route("logs")
def logs(req: func.HttpRequest) -> str:
    logging.getLogger("app").warning("half of \udcff")
    return "logged"


@app.route("closes-stdout")
def closes_stdout(req: func.HttpRequest) -> str:
    sys.stdout.close()
    return "closed"


@app.route("status/{code:int}")
def status(req: func.HttpRequest) -> func.HttpResponse:
    return func.HttpResponse("x", status_code=int(req.route_params["code"]))


@app.route("header")
def header(req: func.HttpRequest) -> str:
    return req.headers.get("x-a", "-")


@app.route("locked", auth_level=func.AuthLevel.FUNCTION)
def locked(req: func.HttpRequest) -> str:
    return "opened"


@app.route("body")
def body(req: func.HttpRequest) -> str:
    return str(len(req.get_body()))
