"""The address of a cloud's API, parsed from the configuration."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from nodemanager.lib.hosts import is_loopback


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of an API. `path` is '' or begins with a slash."""

    host: str
    port: int
    secure: bool = True
    path: str = ""

    def __str__(self) -> str:
        return f"{'https' if self.secure else 'http'}://{self.host}:{self.port}{self.path}"

    @classmethod
    def parse(cls, text: str, insecure: bool) -> Endpoint:
        """Read `host[:port]` (https) or a URL; plain http only to loopback, unless `insecure`.

        Raises ValueError with what is wrong.
        """
        url = urlsplit(text if "://" in text else f"https://{text}")
        host, port = url.hostname or "", url.port
        if url.scheme not in ("https", "http") or not host or url.username or url.query:
            raise ValueError("neither host[:port] nor an http(s) URL")
        secure = url.scheme == "https"
        if not secure and not insecure and not is_loopback(host):
            raise ValueError("plain http is for loopback, unless insecure = yes")
        host = f"[{host}]" if ":" in host else host
        return cls(host, port or (443 if secure else 80), secure, url.path.rstrip("/"))
