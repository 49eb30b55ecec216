"""Orders by button: a page that says what the order will do, and the form that gives it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import falcon
from falcon.asgi import Request, Response

from nodemanager.core.explain.explain import Explanation, explain
from nodemanager.core.model.annotations import FORCIBLE, broken_as
from nodemanager.core.operate.commands import consequences
from nodemanager.core.operate.naming import Known, UnknownIdError
from nodemanager.core.operate.replies import Command, Result, lacks_reason
from nodemanager.core.operate.verbs import STANDING, CommandTarget, Takes, Verb
from nodemanager.lib.logline import span
from nodemanager.web.commands import STATUS, Commands
from nodemanager.web.dashboard import forms
from nodemanager.web.dashboard.render import path_of, words
from nodemanager.web.dashboard.site import Site
from nodemanager.web.dashboard.source import ShownDecision

LONGEST_ID = 500


def add_acts(app: Any, site: Site, commands: Commands) -> None:
    app.add_route("/act/{verb}", _Act(site, commands))


@dataclass(frozen=True, slots=True)
class _Act:
    site: Site
    commands: Commands

    async def on_get(self, request: Request, response: Response, verb: str) -> None:
        session = self.site.signed_in(request, response)
        wanted = _verb(verb)
        if not session.may_act:
            response.status = falcon.HTTP_403
            self._tell(response, session, "odd", "You may only look.", None, wanted)
            return
        id = None
        if wanted.row.subject is not CommandTarget.POOL:
            id = (request.get_param("id") or "")[:LONGEST_ID]
        seen = self.site.source.seen()
        if seen is None:
            raise falcon.HTTPServiceUnavailable(title="starting", description="no decision yet")
        try:
            given = await self.site.workers.run(_described, wanted, seen, id)
        except UnknownIdError as error:
            response.status = falcon.HTTP_404
            self._tell(response, session, "odd", str(error), None, wanted)
            return
        self.site.show(
            response,
            session,
            "act.html.j2",
            title=wanted.row.heading + (f" {id}" if id is not None else ""),
            verb=wanted.value,
            id=id,
            danger=wanted.row.danger,
            back=_back(id),
            **given,
        )

    async def on_post(self, request: Request, response: Response, verb: str) -> None:
        session, form = await self.site.acting(request, response)
        wanted = _verb(verb)
        is_pool = wanted.row.subject is CommandTarget.POOL
        id = None if is_pool else forms.text(form, "id", LONGEST_ID)
        forced = tuple(rule for rule in forms.several(form, "force") if rule in FORCIBLE)
        command = Command(
            wanted,
            by=session.name,
            reason=forms.text(form, "reason").strip(),
            id=id,
            forced=forced if Takes.FORCE in wanted.row.takes else (),
        )
        missing = lacks_reason(command)
        if not command.reason:
            raise falcon.HTTPBadRequest(title="no reason", description=missing or "say why")
        reply = await self.site.workers.run(self.commands.give, command)
        response.status = STATUS[reply.result]
        level = "good" if reply.ok or reply.result is Result.UNDER_WAY else "bad"
        self._tell(response, session, level, reply.text, id, wanted)

    def _tell(
        self, response: Response, session: Any, level: str, text: str, id: str | None, verb: Verb
    ) -> None:
        links = [("Back to the overview", "/")]
        if id is not None:
            links.insert(0, (f"Back to {id}", _back(id)))
        shown = {"level": level, "text": text, "links": links, "title": verb.row.heading}
        self.site.show(response, session, "message.html.j2", **shown)


def _verb(given: str) -> Verb:
    try:
        return Verb(given)
    except ValueError as error:
        raise falcon.HTTPNotFound(title="unknown", description="no such order") from error


def _back(id: str | None) -> str:
    return "/" if id is None else path_of("nodes", id)


def _described(verb: Verb, seen: ShownDecision, id: str | None) -> dict[str, Any]:
    """What the page says about the order. Raises UnknownIdError."""
    decision = seen.decision
    says = consequences(verb, decision.made, decision.snapshot, id)
    if id is None:
        return {"says": says, "facts": list(_of_pool(seen)), "force": []}
    if verb.row.subject is CommandTarget.NODE:
        named = Known(decision.snapshot.history, decision.made.pairs).find(id)
        id = named.node or id
    found = explain(decision.snapshot, decision.made, decision.settings, id, mode=decision.mode)
    # All that block, not only the first: the order is refused while one of them does.
    reasons = [one.reason for one in found.blocks if one.reason is not None]
    broken = dict.fromkeys(name for one in reasons if (name := broken_as(one)) is not None)
    force = [(rule, FORCIBLE[rule]) for rule in broken if Takes.FORCE in verb.row.takes]
    return {"says": says, "facts": list(_of_one(found)), "force": force}


def _of_pool(seen: ShownDecision) -> Iterator[tuple[str, str]]:
    breaker = seen.status.breaker
    causes = ", ".join(words(part.cause) for part in breaker.parts if part.cause is not None)
    yield "breaker", f"open: {causes}" if breaker.is_open else "closed"
    for kind, mark in seen.status.marks.pool.items():
        yield STANDING[kind].title.lower(), f"by {mark.by}: {mark.reason}"
    under_way = ", ".join(f"{n} {words(kind)}" for kind, n in seen.status.under_way.items())
    yield "under way", under_way or "nothing"


def _of_one(found: Explanation) -> Iterator[tuple[str, str]]:
    yield found.subject, found.id
    yield "state", words(found.state)
    if found.record is not None and found.subject == "node":
        yield "host", str(found.record["hostname"])
    if found.node is not None and found.node["age_s"] is not None:
        yield "age", span(found.node["age_s"])
    yield "decision", f"{found.verdict.reason.value}: {found.verdict.reason.doc}"
    if found.blocks:
        yield "blocking", ", ".join(f"{one.rule} {one.reason}" for one in found.blocks)
