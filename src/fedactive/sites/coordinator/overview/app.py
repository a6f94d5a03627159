"""The coordinator's page as an application. It changes nothing: there is a sign-in, and pages to read."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files
from urllib.parse import parse_qs

from jinja2 import Environment, PackageLoader
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from fedactive.sites.coordinator.folder import Coordinator
from fedactive.sites.coordinator.overview import view
from fedactive.sites.coordinator.overview.token import SECONDS_SIGNED_IN, Door
from fedactive.sites.page.allowance import Allowance
from fedactive.sites.page.guard import Guard

PACKAGE = "fedactive.sites.coordinator.overview"
LOOKS = "fedactive.sites.page"  # its style is the labelling page's
LARGEST_FORM = 4096


def create_app(coordinator: Coordinator, stalled_after: float, known_hosts: Iterable[str] = ()) -> Starlette:
    """Make the application. `stalled_after`: seconds without an answer after which a site is stalled."""
    templates = Environment(loader=PackageLoader(PACKAGE), autoescape=True, trim_blocks=True)
    templates.globals |= {"width": view.WIDTH, "height": view.HEIGHT, "margin": view.MARGIN}
    door, wrong = Door(coordinator.folder), Allowance(at_once=5, per_minute=5)
    at = coordinator.address
    cookie = f"fedactive-coordinator-{at.rpartition(':')[2]}"  # cookies do not know ports

    def page(template: str, code: int = 200, /, **values: object) -> Response:
        return HTMLResponse(templates.get_template(f"{template}.html.jinja").render(**values), code)

    def is_signed_in(request: Request) -> bool:
        return door.is_signed_in(request.cookies.get(cookie, ""))

    def runs(request: Request) -> Response:
        if not is_signed_in(request):
            return RedirectResponse("/sign-in", 303)
        shown = [view.summary(coordinator, name) for name in view.run_names(coordinator)]
        return page(
            "runs", signed_in=True, runs=shown, members=coordinator.all_sites(), at=coordinator.address
        )

    def run(request: Request) -> Response:
        if not is_signed_in(request):
            return RedirectResponse("/sign-in", 303)
        name = request.path_params["name"]
        if name not in view.run_names(coordinator):
            return page("sign_in", 404, signed_in=True, message="There is no such run.")
        return page("run", signed_in=True, **view.details(coordinator, name, stalled_after))

    def ask_for_token(request: Request) -> Response:
        return page("sign_in", message="" if door.key else NO_TOKEN)

    async def sign_in(request: Request) -> Response:
        if int(request.headers.get("content-length", LARGEST_FORM)) >= LARGEST_FORM or is_foreign(request):
            return page("sign_in", 403, message="The request did not come from this page.")
        token = parse_qs((await request.body()).decode(errors="replace")).get("token", [""])[-1]
        if not door.opens(token):
            if wait := wrong.take(request.client.host if request.client else ""):
                return page("sign_in", 429, message=f"Too many wrong tokens. Try again in {wait} seconds.")
            return page("sign_in", 403, message="This token is not known." if door.key else NO_TOKEN)
        answer = RedirectResponse("/", 303)
        secure = request.url.scheme == "https"
        answer.set_cookie(
            cookie,
            door.make_cookie(),
            max_age=SECONDS_SIGNED_IN,
            httponly=True,
            samesite="strict",
            secure=secure,
        )
        return answer

    async def sign_out(request: Request) -> Response:
        answer = RedirectResponse("/sign-in", 303)
        if not is_foreign(request):
            answer.delete_cookie(cookie)
        return answer

    routes = [
        Route("/", runs),
        Route("/runs/{name}", run),
        Route("/sign-in", ask_for_token),
        Route("/sign-in", sign_in, methods=["POST"]),
        Route("/sign-out", sign_out, methods=["POST"]),
        Mount("/static", StaticFiles(directory=str(files(LOOKS).joinpath("static")))),
        Mount("/own", StaticFiles(directory=str(files(PACKAGE).joinpath("static")))),
    ]
    return Starlette(routes=routes, middleware=[Middleware(Guard, known_hosts=known_hosts)])


NO_TOKEN = "There is no token yet; `fedactive coordinator token DIR` makes one."


def is_foreign(request: Request) -> bool:
    """Return whether a browser says that another page sent this form."""
    return request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")
