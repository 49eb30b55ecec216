"""What of moto is imported only where its server runs: it takes a second."""

from __future__ import annotations

import sys
from typing import Any

from moto.backends import get_backend
from moto.ec2.models.elastic_block_store import VolumeAttachment
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server

from tests.cloud.json_http import Tls


def _ends_with_instance(attachment: Any) -> bool:
    device = attachment.instance.block_device_mapping[attachment.device]
    return bool(device.delete_on_termination)


# moto's attachments do not say whether they end with the instance.
VolumeAttachment.delete_on_termination = property(_ends_with_instance)


def answering() -> tuple[Any, Any]:
    """moto's application, and its EC2 by account and region."""
    return DomainDispatcherApplication(create_backend_app), get_backend("ec2")


def serving(app: Any, port: int, tls: Tls | None) -> Any:
    """A server of that application on loopback."""
    return make_server(
        "127.0.0.1", port, app, threaded=True, request_handler=_Quiet, ssl_context=tls
    )


class _Quiet(MotoRequestHandler):
    def log(self, type: str, message: str, *args: object) -> None:
        # Each request's line is noise; what broke in the server is what a failed test must show.
        if type == "error":
            print(message % args if args else message, file=sys.stderr)

    def connection_dropped(self, error: BaseException, environ: Any = None) -> None:
        # Or a test that fails by it says only that the connection was closed. Scripted ones, too:
        # a script may be another test's.
        print(f"the EC2 server dropped a connection: {error!r}", file=sys.stderr)
