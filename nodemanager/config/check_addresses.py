"""The addresses of registry, management server and record store, and their secrets."""

from __future__ import annotations

from nodemanager.config import kinds
from nodemanager.config.providers import traits_of
from nodemanager.config.reader import Draft, is_wrong
from nodemanager.config.report import Place
from nodemanager.config.values import Listen, ServerAddress, StoreProvider
from nodemanager.lib.hosts import is_loopback, is_wildcard

PING_HOST = ("Cloud Create", "ping_host")


def check_addresses(draft: Draft) -> None:
    """Report what keeps nodes and clients from reaching these servers, or lets others in."""
    _endpoints(draft)
    _servers(draft)


def _endpoints(draft: Draft) -> None:
    insecure = draft.value("Arvados", "insecure")
    ping = _ping_host(draft)
    for key, endpoint in (
        (("Arvados", "host"), draft.value("Arvados", "host")),
        (PING_HOST, ping),
    ):
        if endpoint is None or insecure is None or insecure:
            continue
        if endpoint.is_plain and not endpoint.is_loopback:
            draft.report.clash(
                draft.places[key],
                draft.place("Arvados", "insecure"),
                "{one} is plain http to another machine, which {other} forbids",
            )
    public: ServerAddress | None = draft.value("Registry", "public_url")
    if public is not None and public.is_plain and not public.is_loopback:
        place = draft.place("Registry", "public_url")
        draft.report.warn(place, "clients would send the registry's token in plain http")
    _ping_is_answered(draft, ping)
    _ping_reaches_us(draft, ping)


def _ping_host(draft: Draft) -> ServerAddress | None:
    section, key = PING_HOST
    written = draft.keys[section].get(key)
    if written is None:
        return None
    try:
        endpoint = kinds.endpoint().parse(written)
    except ValueError as error:
        draft.report.wrong(draft.places[PING_HOST], str(error))
        return None
    draft.values[PING_HOST] = endpoint
    return endpoint


def _ping_is_answered(draft: Draft, ping: ServerAddress | None) -> None:
    """Warn when nodes must ping by https and the registry on a public address has no TLS."""
    listen: Listen | None = draft.value("Registry", "listen")
    if ping is None or ping.is_plain or listen is None or is_loopback(listen.host):
        return
    if draft.value("Records", "provider") is not StoreProvider.REGISTRY:
        return
    if draft.value("Registry", "tls_cert") is None and not is_wrong(draft, "Registry", "tls_cert"):
        draft.report.clash(
            draft.places[PING_HOST],
            draft.place("Registry", "listen"),
            "by {one} nodes ping https, but {other} answers plain http: set [Registry] tls_cert "
            "and tls_key, or put a TLS proxy in front of it",
            refuse=False,
        )


def _ping_reaches_us(draft: Draft, ping: ServerAddress | None) -> None:
    """Warn when a remote cloud's nodes would ping a loopback address or use plain http."""
    provider = draft.value("Cloud", "provider")
    if draft.value("Records", "provider") is StoreProvider.SLURM:
        return
    if provider is None or traits_of(provider).near or is_wrong(draft, *PING_HOST):
        return
    place, loopback, plain = _ping_target(draft, ping)
    if place is None:
        return
    hint = "" if place.section == PING_HOST[0] else "; set [Cloud Create] ping_host"
    if loopback:
        draft.report.warn(place, f"nodes of {provider} can't ping this machine's loopback{hint}")
    elif plain:
        draft.report.warn(place, f"nodes of {provider} would ping in plain http{hint}")


def _ping_target(draft: Draft, ping: ServerAddress | None) -> tuple[Place | None, bool, bool]:
    """The option that sets where nodes ping; whether that is loopback; whether it is plain http."""
    if ping is not None:
        return draft.places[PING_HOST], ping.is_loopback, ping.is_plain
    if draft.value("Records", "provider") is StoreProvider.ARVADOS:
        host: ServerAddress | None = draft.value("Arvados", "host")
        place = None if host is None else draft.place("Arvados", "host")
        return place, host is not None and host.is_loopback, host is not None and host.is_plain
    public: ServerAddress | None = draft.value("Registry", "public_url")
    if public is not None:
        return draft.place("Registry", "public_url"), public.is_loopback, public.is_plain
    listen: Listen | None = draft.value("Registry", "listen")
    if listen is None:
        return None, False, False
    plain = draft.value("Registry", "tls_cert") is None
    return draft.place("Registry", "listen"), is_loopback(listen.host), plain


def _servers(draft: Draft) -> None:
    cert, key = draft.place("Registry", "tls_cert"), draft.place("Registry", "tls_key")
    given = [place.line is not None and place.written != "" for place in (cert, key)]
    if given[0] != given[1]:
        one, other = (cert, key) if given[0] else (key, cert)
        draft.report.clash(one, other, "{one} needs {other} as well")
    listen: Listen | None = draft.value("Registry", "listen")
    port, address = draft.value("Manage", "port"), draft.value("Manage", "address")
    if port is not None and address is not None and not is_loopback(address):
        draft.report.warn(
            draft.place("Manage", "address"),
            "the management server has no TLS, so others on the network can read its token",
        )
    _tokens(draft)
    if listen is None or port is None or address is None:
        return
    overlap = address == listen.host or is_wildcard(address) or is_wildcard(listen.host)
    if port and port == listen.port and overlap:
        draft.report.clash(
            draft.place("Manage", "port"),
            draft.place("Registry", "listen"),
            "{one} and {other} use the same port",
        )


def _tokens(draft: Draft) -> None:
    full, read = draft.value("Manage", "ManagementToken"), draft.value("Manage", "read_token")
    if full is not None and full == read:
        draft.report.clash(
            draft.place("Manage", "read_token"),
            draft.place("Manage", "ManagementToken"),
            "{one} and {other} are the same token, so that it could change everything",
        )
