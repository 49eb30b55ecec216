"""The dashboard's pages over HTTP, behind a sign-in.

    GET  /                     the overview; /nodes, /records, /jobs, /orders, /log, /incident,
                               /windows
    GET  /nodes/ID             a node, or /records/ID: its explanation and history; or /jobs/ID
    GET  /live?of=PATH         that page anew, if it is another version than the browser has,
                               else 204; 410 where what it is about is gone
    GET  /act/VERB?id=ID       what an order will do; POST gives it
    GET  /sign-in              the form for the token; POST signs in
    POST /sign-out
    POST /windows              works out the chart of the stale windows
    GET  /static/NAME          style sheet, script and icon; the only paths without a sign-in

Every form carries the session's form token, and each page says by its Content-Security-Policy
that the browser may load nothing but what this server sends.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import falcon
from falcon.asgi import Request, Response

from nodemanager.core.model.reasons import Reason
from nodemanager.core.operate.naming import UnknownIdError
from nodemanager.lib import foreign
from nodemanager.lib.workers import Workers
from nodemanager.web.dashboard import forms
from nodemanager.web.dashboard.lists import PAGES, incident, list_page
from nodemanager.web.dashboard.overview import overview
from nodemanager.web.dashboard.render import Page, rendered
from nodemanager.web.dashboard.sessions import LASTS_S, LONGEST_NAME, Session, Sessions
from nodemanager.web.dashboard.source import ShownDecision, Source
from nodemanager.web.dashboard.store import Address, Store
from nodemanager.web.dashboard.sweep import Sweeps, windows
from nodemanager.web.dashboard.thing import job, thing
from nodemanager.web.door import Door

NAV = (
    ("Overview", "/"),
    ("Nodes", "/nodes"),
    ("Records", "/records"),
    ("Jobs", "/jobs"),
    ("Orders", "/orders"),
    ("Decisions", "/log"),
    ("Windows", "/windows"),
)
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
        "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'",
        # Without a referrer a browser sends `Origin: null` with a form of ours.
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
)


THREADS = 2


class Site:
    """What all pages share: the sessions, the source of numbers, and the layout.

    `public_url` is where browsers find them behind a proxy.
    """

    def __init__(self, source: Source, door: Door, public_url: str | None = None) -> None:
        public = urlsplit(public_url or "")
        self._encrypted = (
            public.netloc.lower().removesuffix(":443") if public.scheme == "https" else None
        )
        self.source = source
        self.door = door
        self.workers = Workers("dashboard", THREADS)
        self.sweeps = Sweeps(source.board.journal, source.board.clock)
        self.sessions = Sessions(door, source.board.clock.wall)
        self.store = Store(source, self._build, self.workers)

    def _build(
        self, source: Source, seen: ShownDecision, path: str, query: Mapping[str, str]
    ) -> Page:
        """The page at that path. Raises UnknownIdError."""
        match path:
            case "/":
                return overview(source, seen, query)
            case "/incident":
                return incident(source, seen, query)
            case "/windows":
                return windows(seen, self.sweeps)
        if path in PAGES:
            return list_page(path, source, seen, query)
        for prefix in ("/nodes/", "/records/"):
            if path.startswith(prefix):
                return thing(source, seen, path, path.removeprefix(prefix), query)
        if path.startswith("/jobs/"):
            return job(source, seen, path.removeprefix("/jobs/"))
        raise UnknownIdError(f"there is no page {path}")

    # Sessions.

    def session(self, request: Request) -> Session | None:
        given = request.get_cookie_values(cookie_name(request)) or []
        return next((found for one in given if (found := self.sessions.read(one))), None)

    def signed_in(self, request: Request, response: Response) -> Session:
        """The session; without one raises what leads to the sign-in."""
        dress(response)
        session = self.session(request)
        if session is not None:
            return session
        if not self.door.exists:
            raise falcon.HTTPNotFound(title="disabled", description="there is no token")
        path = request.relative_uri
        raise see(f"/sign-in?next={quote(path, safe='')}")

    async def acting(
        self, request: Request, response: Response, *, act: bool = True
    ) -> tuple[Session, Mapping[str, Any]]:
        """The session and form of a change; raises falcon's 403 where it may not be made."""
        session = self.signed_in(request, response)
        form = await forms.sent(request)
        if not self.sessions.is_form_token(session, forms.text(form, "form_token")):
            raise falcon.HTTPForbidden(
                title="not from a page of this session", description="load the page again"
            )
        if act and not session.may_act:
            raise falcon.HTTPForbidden(
                title="you may only look", description="sign in with the management token"
            )
        return session, form

    def is_encrypted(self, request: Request) -> bool:
        """Whether the browser sent it over TLS: to the public address, whose proxy has the TLS."""
        return request.scheme == "https" or request.netloc.lower() == self._encrypted

    # Answers.

    def show(
        self, response: Response, session: Session | None, template: str, **given: Any
    ) -> None:
        """Answer with a page of its own, that no stream keeps up to date."""
        seen = self.source.seen()
        dress(response)
        response.content_type = "text/html; charset=utf-8"
        page = rendered(
            template,
            session=session,
            form_token=None if session is None else self.sessions.form_token(session),
            nav=NAV,
            static=static,
            pool=None if seen is None or session is None else seen.status.pool,
            **given,
        )
        response.text = foreign.shown(page)

    async def show_page(self, request: Request, response: Response, session: Session) -> None:
        address = Address.of(request.path, dict(parse_qsl(request.query_string)))
        try:
            page = await self.store.newest(address, at_once=True)
        except UnknownIdError as error:
            response.status = falcon.HTTP_404
            asked = urlencode({"q": request.path.split("/", 2)[-1]})
            past = ("What the journal has of it", f"/log?{asked}")
            links = [past, ("All nodes", "/nodes"), ("All records", "/records")]
            problem = {"level": "odd", "text": str(error), "links": links, "title": "Not known"}
            self.show(response, session, "message.html.j2", **problem)
            return
        if page is None:
            response.status = falcon.HTTP_503
            response.set_header("Refresh", "2")
            text = "There is no decision yet. This page loads itself again."
            starting = {"level": "odd", "text": text, "links": [], "title": "Starting"}
            self.show(response, session, "message.html.j2", **starting)
            return
        await self.workers.run(
            self.show,
            response,
            session,
            "page.html.j2",
            title=page.title,
            page=page,
            live=str(address),
            now=round(self.source.board.clock.wall(), 3),
            old_after=round(self.source.old_after),
        )


def dress(response: Response) -> None:
    response.set_headers(HEADERS.items())


def see(path: str) -> falcon.HTTPSeeOther:
    # A copy: falcon puts the path into it.
    return falcon.HTTPSeeOther(path, headers=dict(HEADERS))


def cookie_name(request: Request) -> str:
    """The cookie's name. Browsers share cookies between ports, and each port may be a pool."""
    return f"nodemanager-{request.port}"


def own_path(given: str) -> str:
    """`given` if it is a path of this server, else the overview's."""
    is_own = given.startswith("/") and not given.startswith(("//", "/\\")) and given.isprintable()
    try:
        parts = urlsplit(given)
    except ValueError:
        return "/"
    return given if is_own and not parts.scheme and not parts.netloc else "/"


def add_dashboard(app: Any, site: Site) -> None:
    page = _Page(site)
    things = (f"{path}/{{id:path}}" for path in PAGES)
    for path in ("/", "/incident", *PAGES, *things):
        app.add_route(path, page)
    app.add_route("/windows", _Windows(site))
    app.add_route("/live", _Live(site))
    app.add_route("/sign-in", _SignIn(site))
    app.add_route("/sign-out", _SignOut(site))
    app.add_route("/static/{name}", _Static())


@dataclass(frozen=True, slots=True)
class _Page:
    site: Site

    async def on_get(self, request: Request, response: Response, id: str | None = None) -> None:
        site = self.site
        if site.session(request) is None and request.get_header("Sec-Fetch-Site") == "cross-site":
            # A link from another site brings no cookie that is SameSite=Strict; our own page does.
            dress(response)
            response.content_type = "text/html; charset=utf-8"
            response.text = rendered("bounce.html.j2")
            return
        await site.show_page(request, response, site.signed_in(request, response))


@dataclass(frozen=True, slots=True)
class _Windows(_Page):
    async def on_post(self, request: Request, response: Response) -> None:
        await self.site.acting(request, response, act=False)
        self.site.sweeps.start()
        raise see("/windows")


@dataclass(frozen=True, slots=True)
class _Live:
    site: Site

    async def on_get(self, request: Request, response: Response) -> None:
        site = self.site
        dress(response)
        if site.session(request) is None:
            raise falcon.HTTPUnauthorized(title="signed out", description="sign in again")
        parts = urlsplit(own_path(request.get_param("of") or "/"))
        address = Address.of(parts.path, dict(parse_qsl(parts.query)))
        response.set_header("Now", f"{site.source.board.clock.wall():.3f}")
        response.set_header("Decided-Ago", f"{site.source.board.age():.1f}")
        response.set_header("Cache-Control", "no-store")
        response.status = falcon.HTTP_204
        try:
            page = await site.store.newest(address)
        except UnknownIdError:
            response.status = falcon.HTTP_410
            return
        if page is not None and page.version != request.get_param("version"):
            response.status = falcon.HTTP_200
            response.content_type = "text/html; charset=utf-8"
            response.set_header("Version", page.version)
            response.set_header("Content-Encoding", "gzip")
            response.data = page.packed


@dataclass(frozen=True, slots=True)
class _SignIn:
    site: Site

    async def on_get(self, request: Request, response: Response) -> None:
        self._form(response, own_path(request.get_param("next") or "/"))

    async def on_post(self, request: Request, response: Response) -> None:
        site = self.site
        dress(response)
        form = await forms.sent(request)
        path = own_path(forms.text(form, "next"))
        name = forms.text(form, "name", LONGEST_NAME).strip()
        if not name or not name.isprintable():
            response.status = falcon.HTTP_400
            self._form(response, path, "Say who you are: the log names you with each order.")
            return
        role = site.door.role_of(forms.text(form, "token").strip())
        if role is None:
            site.door.refusals.note(Reason.WRONG_TOKEN, request.remote_addr)
            response.status = falcon.HTTP_403
            self._form(response, path, "That is not the token.", name)
            return
        _, cookie = site.sessions.begin(role, name)
        response.set_cookie(
            cookie_name(request),
            cookie,
            max_age=LASTS_S,
            path="/",
            http_only=True,
            same_site="Strict",
            secure=site.is_encrypted(request),
        )
        response.status = falcon.HTTP_303
        response.location = path

    def _form(self, response: Response, path: str, problem: str = "", name: str = "") -> None:
        if not self.site.door.exists:
            raise falcon.HTTPNotFound(title="disabled", description="there is no token")
        given = {"title": "Sign in", "next": path, "problem": problem, "name": name}
        self.site.show(response, None, "sign-in.html.j2", **given)


@dataclass(frozen=True, slots=True)
class _SignOut:
    site: Site

    async def on_post(self, request: Request, response: Response) -> None:
        session, _ = await self.site.acting(request, response, act=False)
        self.site.sessions.end(session)
        response.unset_cookie(cookie_name(request), path="/", same_site="Strict")
        response.status = falcon.HTTP_303
        response.location = "/sign-in"


# Static files.


@cache
def _files() -> Mapping[str, tuple[bytes, str]]:
    folder = files("nodemanager.web.dashboard") / "static"
    return {
        one.name: (one.read_bytes(), TYPES[f".{one.name.rpartition('.')[2]}"])
        for one in folder.iterdir()
        if f".{one.name.rpartition('.')[2]}" in TYPES
    }


@cache
def static(name: str) -> str:
    """The path of a static file; another one for each content, so that browsers may keep it."""
    data, _ = _files()[name]
    return f"/static/{name}?v={hashlib.sha256(data).hexdigest()[:12]}"


class _Static:
    async def on_get(self, request: Request, response: Response, name: str) -> None:
        found = _files().get(name)
        if found is None:
            raise falcon.HTTPNotFound(title="unknown", description="there is no such file")
        dress(response)
        response.data, response.content_type = found
        response.set_header("Cache-Control", "public, max-age=31536000, immutable")
