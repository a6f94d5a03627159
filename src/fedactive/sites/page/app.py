"""The labelling page as an application."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse
from jinja2 import Environment, PackageLoader
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from fedactive.errors import UserError
from fedactive.sites.labels.answers import NotAskedError, NotTheirsError
from fedactive.sites.labels.database import SenselessError, StoreError
from fedactive.sites.labels.store import LabelStore
from fedactive.sites.page import api, pages, people
from fedactive.sites.page.desk import Desk, Gallery, Guess
from fedactive.sites.page.guard import Guard
from fedactive.sites.page.guide import Guide
from fedactive.sites.page.session import Sessions, same_origin

PACKAGE = "fedactive.sites.page"


def create_app(
    store: LabelStore,
    images: Gallery,
    classes: Sequence[str],
    *,
    secret: bytes,
    title: str,
    known_hosts: Iterable[str] = (),
    guess: Guess | None = None,
    guide: Guide = (),
) -> FastAPI:
    """Make the application.

    `secret` signs what the page sends back: keep it over restarts to keep people signed in. `known_hosts` are
    names and addresses under which people reach the page, beside this machine's own. `guide` says what the
    classes mean.
    """
    templates = Environment(loader=PackageLoader(PACKAGE), autoescape=True, trim_blocks=True)
    templates.globals["title"] = title
    templates.policies["json.dumps_kwargs"] = {}  # in the order of the API's: a script compares the two
    desk = Desk(store, images, tuple(classes), Sessions(secret, store), templates, guess, guide)
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, dependencies=[Depends(same_origin)])
    app.state.desk = desk
    app.add_middleware(Guard, known_hosts=known_hosts)
    app.mount("/static", StaticFiles(directory=str(files(PACKAGE).joinpath("static"))))
    app.include_router(pages.router)
    app.include_router(api.router)
    app.include_router(people.router)

    def fail(
        request: Request, status: int, message: str, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Answer with JSON for scripts, and for people with a page, or the page to sign in."""
        if request.url.path.startswith(("/api/", "/images/")):
            return JSONResponse({"error": message}, status, headers)
        if status == 401:
            return RedirectResponse("/sign-in", 303)
        return desk.page("error", desk.sessions.find(request), status, message=message)

    @app.exception_handler(HTTPException)
    def handle_http_error(request: Request, error: HTTPException) -> Response:
        message = "There is nothing here." if error.detail == "Not Found" else error.detail
        return fail(request, error.status_code, message, error.headers)

    @app.exception_handler(RequestValidationError)
    def handle_invalid_request(request: Request, error: RequestValidationError) -> Response:
        faults = [f"{'.'.join(map(str, fault['loc'][1:]))}: {fault['msg']}" for fault in error.errors()]
        return fail(request, 422, "; ".join(faults))

    @app.exception_handler(UserError)
    def handle_user_error(request: Request, error: UserError) -> Response:
        statuses = {NotAskedError: 404, NotTheirsError: 409, SenselessError: 422, StoreError: 503}
        status = next((statuses[kind] for kind in type(error).mro() if kind in statuses), 400)
        return fail(request, status, str(error))

    @app.exception_handler(Exception)
    def handle_bug(request: Request, error: Exception) -> Response:
        return fail(request, 500, "Something went wrong at the site. Its log says what.")

    return app
