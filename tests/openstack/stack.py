"""An OpenStack on loopback: keystone, placement, glance, neutron, cinder, nova.

The services are the real ones, as processes, but nothing is below them. Nova's hypervisor
(`fake.FakeDriver`) and cinder's storage (`FakeLoggingVolumeDriver`) are fakes that nova and cinder
ship. Neutron's driver is the one for Open vSwitch; the agent that it relies on is a row in its
database.
"""

from __future__ import annotations

import os
import secrets
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import sqlalchemy as sa

from tests.contract.stores import Postgres
from tests.live.harness import free_port, write_config
from tests.openstack import people
from tests.openstack.processes import Processes, listens
from tests.openstack.settings import APIS, DATABASES, FILES, HOST, REGION, Places

SERVE = Path(__file__).parent / "serve.py"
RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
WSGI = {
    "keystone": "keystone.wsgi.api",
    "placement": "placement.wsgi.api",
    "glance": "glance.wsgi.api",
    "neutron": "neutron.wsgi.api",
    "cinder": "cinder.wsgi.api",
    "nova": "nova.wsgi.osapi_compute",
}
WORKERS = {
    "nova-conductor": "nova",
    "nova-scheduler": "nova",
    "nova-compute": "nova",
    "cinder-scheduler": "cinder",
    "cinder-volume": "cinder",
}
Say = Callable[[str], None]


class Stack:
    """The services below the directory `home`; `venv` is where they are installed."""

    def __init__(self, home: Path, venv: Path, say: Say) -> None:
        self._say = say
        self._closing = ExitStack()
        self.processes = Processes(home / "logs")
        self.home = home
        self.venv = venv

    def close(self) -> None:
        self._closing.close()

    def start(self) -> None:
        """Raises Broken where something does not start."""
        began = time.monotonic()
        self._prepare()
        self._rabbitmq()
        self._schemas()
        self._serve("keystone")
        self._say("users and endpoints")
        people.register(self.places)
        for project in ("placement", "glance", "neutron", "cinder"):
            self._serve(project)
        self.processes.wait("rabbitmq", lambda: listens(self.places.ports["rabbitmq"]))
        for worker, project in WORKERS.items():
            self.processes.start(worker, [self._tool(worker), *self._config(project)])
        self._serve("nova")
        self._say("a project, an image, a network")
        self._settle()
        self._say(f"all services run, after {time.monotonic() - began:.0f} s")

    def _prepare(self) -> None:
        self._say("PostgreSQL")
        self.postgres = Postgres(connections=400)
        self._closing.callback(self.postgres.stop)
        # Before PostgreSQL, which waits for its clients.
        self._closing.callback(self.processes.end)
        databases = {}
        for name in DATABASES:
            url = self.postgres.new_database()
            databases[name] = url.replace("postgresql:", "postgresql+psycopg2:")
        names = (*APIS, "rabbitmq", "epmd", "erlang")
        self.places = Places(
            self.home,
            self.venv,
            {name: free_port() for name in names},
            databases,
            secrets.token_hex(16),
        )
        for project, sections in FILES.items():
            folder = self.home / project
            folder.mkdir(parents=True)
            write_config(folder / f"{project}.conf", sections(self.places))
        # Glance wants one of that name.
        (self.home / "glance/glance-api.conf").symlink_to("glance.conf")

    def _rabbitmq(self) -> None:
        self._say("RabbitMQ")
        ports, folder = self.places.ports, self.home / "rabbitmq"
        folder.mkdir()
        config = folder / "rabbitmq.conf"
        config.touch(mode=0o600)
        config.write_text(
            f"listeners.tcp.1 = 127.0.0.1:{ports['rabbitmq']}\n"
            f"default_user = openstack\ndefault_pass = {self.places.password}\n"
            "loopback_users.openstack = true\nlog.console = true\nlog.console.level = warning\n",
            encoding="ascii",
        )
        # Erlang's names of nodes; one that somebody else started would go on running.
        epmd = {"ERL_EPMD_PORT": str(ports["epmd"]), "ERL_EPMD_ADDRESS": "127.0.0.1"}
        self.processes.start("epmd", ["epmd"], **epmd)
        self.processes.wait("epmd", lambda: listens(ports["epmd"]))
        self.processes.start(
            "rabbitmq",
            [RABBITMQ],
            **epmd,
            HOME=str(folder),
            RUNNING_UNDER_SYSTEMD="true",
            RABBITMQ_NODENAME=f"openstack-{ports['rabbitmq']}@localhost",
            RABBITMQ_DIST_PORT=str(ports["erlang"]),
            RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-kernel inet_dist_use_interface {127,0,0,1}",
            RABBITMQ_CONFIG_FILE=str(config),
            RABBITMQ_CONF_ENV_FILE=str(folder / "none"),
            RABBITMQ_ENABLED_PLUGINS_FILE=str(folder / "plugins"),
            RABBITMQ_MNESIA_BASE=str(folder / "data"),
            RABBITMQ_LOG_BASE=str(folder / "log"),
        )

    def _schemas(self) -> None:
        self._say("schemas of the databases")
        chains = (self._nova_setup(), self._other_setup())

        def run(number: int) -> None:
            for tool, project, *what in chains[number]:
                command = [self._tool(tool), *self._config(project), *what]
                # Keystone takes its first password from here: others see the process list.
                secret = {"OS_BOOTSTRAP_PASSWORD": self.places.password}
                self.processes.once(f"setup-{number}", command, **secret)
                self._say(f"    {tool} {what[0]}")

        with ThreadPoolExecutor(len(chains)) as threads:
            try:
                list(threads.map(run, range(len(chains))))
            except BaseException:
                # The other one must not go on.
                self.processes.end()
                raise
        schema = SERVE.with_name("neutron_schema.py")
        neutron = self.places.databases["neutron"]
        self.processes.once("setup", [self._tool("python"), "-P", schema, neutron])
        self._agent(neutron)

    def _nova_setup(self) -> list[tuple[str, ...]]:
        """Each: a tool, its project, and what it is to do."""
        manage = ("nova-manage", "nova")
        cell0 = ("--database_connection", self.places.databases["cell0"])
        return [
            (*manage, "api_db", "sync"),
            (*manage, "cell_v2", "map_cell0", *cell0),
            (*manage, "db", "sync"),
            (*manage, "cell_v2", "create_cell", "--name", "cell1"),
        ]

    def _other_setup(self) -> list[tuple[str, ...]]:
        manage = ("keystone-manage", "keystone")
        user = ("--keystone-user", str(os.geteuid()), "--keystone-group", str(os.getegid()))
        url = self.places.url("keystone")
        return [
            (*manage, "db_sync"),
            (*manage, "fernet_setup", *user),
            (
                *(*manage, "bootstrap", "--bootstrap-region-id", REGION),
                *("--bootstrap-admin-url", url),
                *("--bootstrap-public-url", url),
                *("--bootstrap-internal-url", url),
            ),
            ("placement-manage", "placement", "db", "sync"),
            ("glance-manage", "glance", "db_sync"),
            ("cinder-manage", "cinder", "db", "sync"),
        ]

    def _agent(self, database: str) -> None:
        """An agent for Open vSwitch on the compute host that says it lives, and wires nothing."""
        now = datetime.now(UTC).replace(tzinfo=None)
        row = {
            "id": str(uuid.uuid4()),
            "agent_type": "Open vSwitch agent",
            "binary": "neutron-openvswitch-agent",
            "topic": "N/A",
            "host": HOST,
            "created_at": now,
            "started_at": now,
            "heartbeat_timestamp": now,
            "configurations": "{}",
            "load": 0,
            "admin_state_up": True,
        }
        agents = sa.table("agents", *map(sa.column, row))
        engine = sa.create_engine(database.replace("psycopg2", "psycopg"))
        with engine.begin() as neutron:
            neutron.execute(sa.insert(agents).values(row))
        engine.dispose()

    def _tool(self, name: str) -> Path:
        return self.venv / "bin" / name

    def _config(self, project: str) -> tuple[str, str]:
        return "--config-file", f"{self.home}/{project}/{project}.conf"

    def _serve(self, project: str) -> None:
        self._say(project)
        port, folder = self.places.ports[project], str(self.home / project)
        env = {
            f"OS_{project.upper()}_CONFIG_DIR": folder,
            f"OS_{project.upper()}_CONFIG_FILES": f"{project}.conf",
        }
        if project == "nova":
            paste = self.venv / "etc/nova/api-paste.ini"
            env["OS_NOVA_CONFIG_FILES"] = f"{paste};nova.conf"
        # Cinder has no such variables, and glance reads no options.
        options = self._config(project) if project == "cinder" else ()
        command = [self._tool("python"), "-P", SERVE, WSGI[project], port, *options]
        self.processes.start(project, command, **env)
        self.processes.wait(project, lambda: listens(port))

    def _settle(self) -> None:
        found = people.settle(self.places)
        # Nova boots on a host only once its cell knows it; the host tells placement of itself last.
        self.processes.wait("nova-compute", partial(people.has_host, self.places))
        discover = ("cell_v2", "discover_hosts", "--strict")
        self.processes.once("setup", [self._tool("nova-manage"), *self._config("nova"), *discover])
        self.cloud = people.Cloud(
            **found,
            compute_group=self.processes.group("nova-compute"),
            postgres=self.postgres.url("postgres"),
            nova_database=self.places.databases["nova"],
        )
