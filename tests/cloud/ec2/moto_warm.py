"""moto with all that its first calls load: for a process whose forks serve it.

That is megabytes of JSON, a second and a half for each server that would load it anew.
"""

from __future__ import annotations

from werkzeug.test import Client

from tests.cloud.ec2 import moto_app, schema


def _ask(service: str, version: str, action: str) -> None:
    scope = f"20200101/us-east-1/{service}/aws4_request"
    Client(moto_app.answering()[0]).post(
        headers={"Authorization": f"AWS4-HMAC-SHA256 Credential=A/{scope}, Signature=0"},
        data={"Action": action, "Version": version},
    ).close()


_ask("ec2", "2016-11-15", "DescribeInstances")
_ask("sts", "2011-06-15", "GetCallerIdentity")
schema.knows("DescribeInstances")
