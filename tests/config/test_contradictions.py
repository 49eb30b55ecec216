"""Two options together: refused, or read the safe way with a warning (S1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases import cases
from tests.config.conftest import Read, Refused

PG = "postgresql://u@db/main"
COMMANDS = "".join(
    f"{verb}_command = /bin/true\n" for verb in ("nodes", "queue", "drain", "resume")
)
BY_COMMAND = f"[Daemon]\ndispatcher = command\n[Scheduler]\n{COMMANDS}"
SEATS = "[Daemon]\ndispatcher = slurm\n[Records]\nprovider = slurm\n"
EC2 = "[Daemon]\nmin_nodes = 1\n[Registry]\nlisten =\n[Cloud]\nprovider = ec2\n"


@cases(
    ("text", "problem"),
    {
        "fresh-against-the-default-poll": (
            "[Daemon]\npoll_stale_after = 119\n",
            "2: [Daemon] poll_stale_after = 119: by this polls are fresh for 119 s, which is below "
            "two polls of [Daemon] poll_time = 60 (default) (120 s)",
        ),
        "fresh-against-a-long-poll": (
            "[Daemon]\npoll_time = 301\n[Cleaning]\nsettle = 301\n",
            "2: [Daemon] poll_time = 301: by [Daemon] poll_stale_after = 600 (default)",
        ),
        "fresh-against-the-longest-poll": (
            "[Daemon]\nwishlist_poll_time = 301\n",
            "2: [Daemon] wishlist_poll_time = 301: by [Daemon] poll_stale_after = 600 (default)",
        ),
        "fresh-after-an-adjustment": (
            "[Daemon]\npoll_time = 50\n\nnode_stale_after = 199\n",
            "4: [Daemon] node_stale_after = 199: by this polls are fresh for 99.5 s, which is",
        ),
        "told-at-the-later-line": (
            "[Daemon]\nmin_nodes = 4\nmax_nodes = 2\n",
            "3: [Daemon] max_nodes = 2: [Daemon] min_nodes = 4 (line 2) asks for more nodes than "
            "this allows",
        ),
        "told-at-the-later-line-if-it-asks": (
            "[Daemon]\nmax_nodes = 2\nmin_nodes = 4\n",
            "3: [Daemon] min_nodes = 4: this asks for more nodes than [Daemon] max_nodes = 2 "
            "(line 2) allows",
        ),
        "told-against-a-default": (
            "[Daemon]\nmin_nodes = 4\n",
            "2: [Daemon] min_nodes = 4: this asks for more nodes than [Daemon] max_nodes = 1 "
            "(default) allows",
        ),
        "plain-http-to-arvados": (
            "[Arvados]\ntoken = t\nhost = http://a.example\n",
            "3: [Arvados] host = http://a.example: this is plain http to another machine, which "
            "[Arvados] insecure = no (default) forbids",
        ),
        "plain-http-of-pings": (
            "[Cloud Create]\nping_host = http://a.example\n",
            "2: [Cloud Create] ping_host = http://a.example: this is plain http to another "
            "machine, which [Arvados] insecure = no (default) forbids",
        ),
        "no-port": (
            "[Cloud Create]\nping_host = hostname:port\n",
            "2: [Cloud Create] ping_host = hostname:port: not an address",
        ),
        "arvados-without-a-token": (
            "[Arvados]\nhost = a.example\n",
            "2: [Arvados] host = a.example: the Arvados store needs [Arvados] token",
        ),
        "a-certificate-without-a-key": (
            "[Registry]\ntls_cert = /a.crt\n",
            "2: [Registry] tls_cert = /a.crt: this needs [Registry] tls_key = (default) as well",
        ),
        "one-token-for-two": (
            "[Manage]\nManagementToken = x1\nread_token = x1\n",
            "3: [Manage] read_token = ***: this and [Manage] ManagementToken = *** (line 2) are",
        ),
        "one-port-for-two-servers": (
            "[Registry]\nlisten = 0.0.0.0:8989\n[Manage]\nport = 8989\n",
            "4: [Manage] port = 8989: this and [Registry] listen = 0.0.0.0:8989 (line 2) use",
        ),
        "an-unknown-dispatcher": (
            "[Daemon]\ndispatcher = pbs\n",
            "2: [Daemon] dispatcher = pbs: must be ping or slurm or command",
        ),
        "a-verb-is-missing": (
            BY_COMMAND,
            "2: [Daemon] dispatcher = command: needs [Scheduler] down_command",
        ),
        "cancelled-and-not-told": (
            f"{BY_COMMAND}down_command = /bin/true\ncancel_command = /bin/true\n"
            "cancel_unsatisfiable = yes\n",
            "10: [Scheduler] cancel_unsatisfiable = yes: needs [Scheduler] comment_command",
        ),
        "a-dispatcher-beside-a-wishlist": (
            "[Daemon]\ndispatcher = slurm\nwishlist_command = /bin/true\n",
            "3: [Daemon] wishlist_command = /bin/true: this and [Daemon] dispatcher = slurm "
            "(line 2) would be two sources of demand",
        ),
        "a-poll-older-than-fresh": (
            "[Daemon]\ndispatcher = slurm\n[Slurm]\ntimeout = 300\n",
            "4: [Slurm] timeout = 300: by this a poll of queue and nodes may be older than",
        ),
        "a-relative-conf": (
            "[Slurm]\nconf = slurm.conf\n",
            "2: [Slurm] conf = slurm.conf: must be an absolute path",
        ),
        "no-partitions": (
            "[Slurm]\npartitions = a;b c\n",
            "2: [Slurm] partitions = a;b c: 'a;b c' is not a name; write names",
        ),
        "pruning-without-a-condition": (
            "[Arvados]\nhost = api.example.org\ntoken = t\n[Cleaning]\nprune_after = 90d\n",
            "5: [Cleaning] prune_after = 90d: this needs a registry",
        ),
        "the-pool-of-a-pre-flight": (
            "[Daemon]\npool = xa-preflight\n",
            "2: [Daemon] pool = xa-preflight: names that end in -preflight are for",
        ),
        "nameless-before-preflight": (
            "[Daemon]\npool = x-preflight\n",
            "2: [Daemon] pool = x-preflight: names that end in -preflight are for",
        ),
        "places-of-this-machine": (
            "[Cloud]\nprovider = local\nplaces = a, b\n",
            "3: [Cloud] places = a, b: local boots its nodes in one place",
        ),
        "places-of-the-dummy": (
            "[Cloud]\nprovider = dummy\nplaces = a, b\n",
            "3: [Cloud] places = a, b: dummy boots its nodes in one place",
        ),
        "places-of-a-hypervisor": (
            "[Cloud]\nprovider = libvirt\n[Size small]\nplaces = a, b\n",
            "4: [Size small] places = a, b: libvirt boots its nodes in one place",
        ),
        "places-with-a-hole": (
            "[Cloud]\nprovider = ec2\nplaces = a,,b\n",
            "3: [Cloud] places = a,,b: has a comma without a name beside it",
        ),
        "places-twice": (
            "[Cloud]\nprovider = ec2\nplaces = a, b, a\n",
            "3: [Cloud] places = a, b, a: names a twice",
        ),
        "a-lease-beside-records-in-a-file": (
            f"[Lease]\nstore = database\ndatabase = {PG}\n",
            "2: [Lease] store = database: this needs [Registry] database = "
            "sqlite:////var/lib/nodemanager/pool/registry.db (default): postgresql://..., since",
        ),
        "a-lease-without-a-shared-journal": (
            f"[Registry]\ndatabase = {PG}\n[Lease]\nstore = database\n[Journal]\ndatabase =\n",
            "6: [Journal] database =: [Lease] store = database (line 4) needs this: who takes over",
        ),
        "a-lease-too-short": (
            f"[Registry]\ndatabase = {PG}\n[Lease]\nstore = database\nduration = 2\n",
            "5: [Lease] duration = 2: is too short: a lease lasts 3 s at least",
        ),
    },
)
def test_a_file_whose_options_contradict_each_other_is_refused(
    refused: Refused, text: str, problem: str
) -> None:
    (told,) = refused(text, cloud="[Cloud]\n" not in text)
    assert told.startswith(problem)


def test_each_option_that_another_one_needs_is_told(refused: Refused) -> None:
    assert refused("[Records]\nprovider = arvados\n") == [
        "2: [Records] provider = arvados: the Arvados store needs [Arvados] host",
        "2: [Records] provider = arvados: the Arvados store needs [Arvados] token",
    ]
    needed = [one.partition(": this needs ")[2] for one in refused("[Lease]\nstore = database\n")]
    assert [one.partition(" = ")[0] for one in needed] == [
        *("[Lease] database", "[Journal] database", "[Registry] database")
    ]
    assert "postgresql://... that all managers of the pool reach" in needed[0]


@cases(
    ("text", "warning"),
    {
        "a-cap-on-polls-below-a-poll": (
            "[Daemon]\nmax_poll_time = 30\n",
            "2: [Daemon] max_poll_time = 30: this is below [Daemon] poll_time = 60 (default); "
            "using max_poll_time = 60",
        ),
        "more-nodes-than-slots": (
            "[Daemon]\nmax_nodes = 8\n[Registry]\nslots = 4\n",
            "4: [Registry] slots = 4: [Daemon] max_nodes = 8 (line 2) allows more nodes than",
        ),
        "management-on-the-network": (
            "[Manage]\nport = 8989\naddress = 0.0.0.0\n",
            "3: [Manage] address = 0.0.0.0: the management server has no TLS",
        ),
        "free-under-a-cap": (
            "[Size a]\nprice = 0\n[Daemon]\nmax_total_price = 1\n",
            "4: [Daemon] max_total_price = 1: [Size a] price = 0 (line 2) means that the price is",
        ),
        "the-forerunners-slurm-queue": (
            "[Arvados]\nslurm_queue = yes\n",
            "2: [Arvados] slurm_queue = yes: Slurm's queue is demand where [Daemon] dispatcher",
        ),
        "the-forerunners-jobs-queue": (
            "[Arvados]\njobs_queue = yes\n",
            "2: [Arvados] jobs_queue = yes: not used",
        ),
        "slurm-that-is-not-asked": (
            "[Slurm]\npartitions = a\n",
            "2: [Slurm] partitions = a: not used: [Daemon] dispatcher is ping",
        ),
        "programs-that-are-not-asked": (
            "[Daemon]\ndispatcher = slurm\n[Scheduler]\ntimeout = 5\n",
            "4: [Scheduler] timeout = 5: not used: [Daemon] dispatcher is slurm",
        ),
        "slots-beside-slurms-nodes": (
            f"{SEATS}[Registry]\nslots = 64\n",
            "6: [Registry] slots = 64: not used: the slots are Slurm's nodes",
        ),
        "a-registry-beside-slurms-nodes": (
            f"{SEATS}[Registry]\nlisten = 0.0.0.0:8990\n",
            "6: [Registry] listen = 0.0.0.0:8990: not used",
        ),
        "host-names-beside-slurms-nodes": (
            f"{SEATS}[Registry]\nhostname = node%(slot_number)d\n",
            "6: [Registry] hostname = node%(slot_number)d: not used",
        ),
        "pings-beside-slurms-nodes": (
            f"{SEATS}[Cloud Create]\nping_host = ping.lab.net\n",
            "6: [Cloud Create] ping_host = ping.lab.net: not used",
        ),
        "scratch-space-in-gb-n3": (
            f"{EC2}[Size m5.large]\ncores = 2\nscratch = 100\n",
            "9: [Size m5.large] scratch = 100: is in MB, so this is almost nothing; for GB write "
            "100000",
        ),
        "more-spare-nodes-than-nodes": (
            f"{EC2}[Size a]\nspare_nodes = 1\n[Size b]\nspare_nodes = 2\n",
            "10: [Size b] spare_nodes = 2: all sizes together keep 3 spare nodes, more than",
        ),
        "an-order-of-one-place": (
            f"{EC2}places = z-1\n[Size a]\nplace_order = spread\n"
            "[Size b]\nplace_order = first\nplaces = z-1, z-2\n",
            "9: [Size a] place_order = spread: has no effect: the size has less than two places",
        ),
    },
)
def test_options_that_have_no_effect_together_are_a_warning(
    read: Read, text: str, warning: str
) -> None:
    config = read(text, cloud="[Cloud]\n" not in text)
    (told,) = config.warnings
    assert told.startswith(f"{config.path}:{warning}")


@cases(
    "text",
    {
        "a-window-above-freshness": "[Daemon]\npoll_stale_after = 600\nnode_stale_after = 601\n",
        "management-without-a-port": "[Manage]\naddress = 0.0.0.0\n",
        "free-without-a-cap": "[Size a]\nprice = 0\n",
        "a-certificate-with-its-key": "[Registry]\ntls_cert = /a.crt\ntls_key = /a.key\n",
        "the-forerunners-queues-off": "[Arvados]\njobs_queue = no\nslurm_queue = off\n",
        "no-dispatcher": "[Daemon]\ndispatcher =\n",
        "a-database-beside-slurms-nodes": f"{SEATS}[Registry]\ndatabase = sqlite:////tmp/x.db\n",
        "scratch-space-in-mb": f"{EC2}[Size m5.large]\ncores = 2\nscratch = 100000\n",
        "no-scratch-space": f"{EC2}[Size m5.large]\ncores = 2\nscratch = 0\n",
        "ones-own-image": "[Cloud Create]\nimage_id = ami-0a1b2c3d4e5f60718\n",
        "ones-own-host": "[Cloud Credentials]\nauth_url = https://example.organic.net\n",
        "ones-own-secret": "[Cloud Credentials]\nsecret = SECRETS\n",
    },
)
def test_what_goes_together_is_no_warning(read: Read, text: str) -> None:
    assert read(text, cloud="[Cloud]\n" not in text).warnings == ()


def test_a_stale_window_at_or_below_poll_staleness_halves_how_long_polls_are_fresh(
    read: Read,
) -> None:
    config = read("[Daemon]\npoll_stale_after = 600\nnode_stale_after = 600\n")
    assert config.daemon.poll_stale_after == 300
    assert config.daemon.node_stale_after == 600
    assert config.origin("Daemon", "poll_stale_after") == "adjusted"
    assert config.warnings == (
        f"{config.path}:3: [Daemon] node_stale_after = 600: this is not above "
        "[Daemon] poll_stale_after = 600 (line 2); using poll_stale_after = 300",
    )


def test_settle_below_one_poll_of_the_cloud_is_one_poll_of_the_cloud(read: Read) -> None:
    config = read("[Cleaning]\nsettle = 10\n[Daemon]\ncloudlist_poll_time = 30\n")
    assert config.cleaning.settle == 30
    assert config.origin("Cleaning", "settle") == "adjusted"
    assert config.warnings == (
        f"{config.path}:4: [Daemon] cloudlist_poll_time = 30: [Cleaning] settle = 10 (line 2) is "
        "below this, one poll of the cloud; using settle = 30",
    )


def test_polls_fresh_for_exactly_two_polls_will_do(read: Read) -> None:
    assert read("[Daemon]\npoll_stale_after = 120\n").daemon.poll_stale_after == 120


def test_a_contradiction_is_found_when_other_options_are_wrong(refused: Refused) -> None:
    problems = refused("[Daemon]\nmin_nodes = 4\nwatchdog = 0\nmax_nodes = 2\nbogus = 1\n")
    assert [problem.split(":")[0] for problem in problems] == ["3", "4", "5"]


def test_plain_http_is_taken_where_it_is_insecure_on_purpose(read: Read) -> None:
    config = read(
        "[Arvados]\ntoken = t\nhost = http://a.example\ninsecure = yes\n"
        "[Cloud Create]\nping_host = http://b.example:81\n"
    )
    assert config.arvados.host is not None
    assert config.ping_host is not None
    assert config.ping_host.url == "http://b.example:81"


@cases(
    ("text", "warned"),
    {
        "registry-on-loopback": ("", True),
        "loopback": ("[Cloud Create]\nping_host = 127.0.0.1:8990\n", True),
        "plain": (
            "[Arvados]\ninsecure = yes\n[Cloud Create]\nping_host = http://a.example\n",
            True,
        ),
        "registry-without-tls": ("[Registry]\nlisten = 10.0.0.1:8990\n", True),
        "https": ("[Cloud Create]\nping_host = a.example\n", False),
        "served-elsewhere": ("[Registry]\nlisten =\n", False),
    },
)
def test_a_ping_url_that_a_remote_node_cannot_use_safely_is_a_warning(
    read: Read, text: str, warned: bool
) -> None:
    config = read(f"[Cloud]\nprovider = ec2\n{text}", cloud=False)
    pings = [line for line in config.warnings if "nothing asks for nodes" not in line]
    assert bool(pings) is warned


@cases(
    ("registry", "is_told"),
    {
        "every-address-without-tls": ("listen = 0.0.0.0:8990", True),
        "behind-a-proxy-of-this-machine": ("listen = 127.0.0.1:8990", False),
        "served-elsewhere": ("listen =", False),
        "tls": ("listen = :::8990\ntls_cert = /c\ntls_key = /k", False),
    },
)
def test_https_pings_to_a_registry_without_tls_are_a_warning(
    read: Read, registry: str, is_told: bool
) -> None:
    """O13."""
    registry = registry.replace(":::", "[::]:")
    text = f"[Registry]\n{registry}\n[Cloud Create]\nping_host = https://reg.example.org:8990\n"
    told = [one for one in read(text).warnings if "answers plain http" in one]
    assert bool(told) is is_told
    assert all("[Registry] listen = 0.0.0.0:8990 (line 2)" in one for one in told)


def test_the_store_is_arvados_where_its_host_is_given_unless_the_file_says_so(read: Read) -> None:
    arvados = read("[Arvados]\nhost = a.example\ntoken = t\n[Records]\nslots = 9\n")
    assert (arvados.records.provider, arvados.slots) == ("arvados", 9)
    registry = read(
        "[Arvados]\nhost = a.example\ntoken = t\n[Records]\nprovider = registry\nslots = 9\n"
    )
    assert (registry.records.provider, registry.slots) == ("registry", 64)
    assert len(registry.warnings) == 2


@cases(
    ("text", "shown"),
    {
        "image": (
            "[Cloud Create]\nimage_id = ami-0123456789abcdef0\n",
            "2: [Cloud Create] image_id = ami-0123456789abcdef0",
        ),
        "network": (
            "[Cloud Create]\nnetworks = 11111111-2222-4333-8444-555555555555\n",
            "2: [Cloud Create] networks = 11111111-2222-4333-8444-555555555555",
        ),
        "tenant": (
            "[Cloud Credentials]\ntenant_id = 00000000-0000-0000-0000-000000000000\n",
            "2: [Cloud Credentials] tenant_id = ***",
        ),
        "secret": ("[Cloud Credentials]\nsecret = SECRET\n", "2: [Cloud Credentials] secret = ***"),
        "host": (
            "[Cloud Credentials]\nauth_url = https://keystone.example.org:5000\n",
            "2: [Cloud Credentials] auth_url = ***",
        ),
        "token": ("[Arvados]\ntoken = TOKEN\n", "2: [Arvados] token = ***"),
        "domain": ("[Registry]\ndomain = example.org\n", "2: [Registry] domain = example.org"),
        "cut-off": ("[Cloud Credentials]\nkey = AKIA...\n", "2: [Cloud Credentials] key = ***"),
        "project": (
            "[Cloud Create]\nservice_account_name = node@my-project.iam.gserviceaccount.com\n",
            "2: [Cloud Create] service_account_name = node@my-project.iam.gserviceaccount.com",
        ),
        "plan": (
            "[Cloud Create]\nimage_plan = Publisher:Product:Plan\n",
            "2: [Cloud Create] image_plan = Publisher:Product:Plan",
        ),
        "subscription": (
            "[Cloud Create]\nhost_group = /subscriptions/ID/resourceGroups/GROUP\n",
            "2: [Cloud Create] host_group = /subscriptions/ID/resourceGroups/GROUP",
        ),
        "tag": ("[Cloud List]\ntag_cluster = example\n", "2: [Cloud List] tag_cluster = example"),
        "cluster": ("[Cloud List]\ntag_cluster = zzzzz\n", "2: [Cloud List] tag_cluster = zzzzz"),
    },
)
def test_a_value_that_a_sample_only_stands_for_is_a_warning(
    read: Read, text: str, shown: str
) -> None:
    (warning,) = read(text).warnings
    assert warning.endswith(f"{shown}: is only a sample's value; write your own")


@pytest.mark.parametrize(
    ("provider", "meant"),
    [
        *(("aws", "ec2"), ("Amazon", "ec2"), ("gcp", "gce"), ("google", "gce"), ("kvm", "libvirt")),
        *(("azurerm", "azure"), ("microsoft", "azure"), ("nova", "openstack")),
    ],
)
def test_another_name_of_a_cloud_leads_to_ours(refused: Refused, provider: str, meant: str) -> None:
    (problem,) = refused(
        f"[Cloud]\nprovider = {provider}\n", cloud=False, accepts=lambda provider: None
    )
    assert problem.endswith(f"; did you mean '{meant}'?")


@cases(
    ("program", "says"),
    {
        "missing": ("{home}/none", "No such file or directory: {home}/none"),
        "a-text": ("{home}/text", "not executable: {home}/text"),
        "a-folder": ("{home}", "not executable: {home}"),
        "a-program": ("/bin/true --now", ""),
        "a-bare-name": ("found-by-path", ""),
    },
)
def test_a_program_that_is_not_there_is_warned_of(
    read: Read, tmp_path: Path, program: str, says: str
) -> None:
    """`init` names /usr/local/bin/wishlist, and both checks called a file without it fine."""
    (tmp_path / "text").write_text("no program")
    told = read(f"[Daemon]\nwishlist_command = {program.format(home=tmp_path)}\n").warnings
    assert len(told) == bool(says)
    assert all(one.endswith(says.format(home=tmp_path)) for one in told)


@pytest.mark.parametrize("written", ["", "ping", "slurm", "SLURM"])
def test_a_dispatcher_needs_no_more_than_its_name(read: Read, written: str) -> None:
    config = read(f"[Daemon]\ndispatcher = {written}\n")
    assert config.daemon.dispatcher == (written.lower() or "ping")
    assert config.warnings == ()


def test_pruning_is_off_unless_a_duration_is_given(read: Read) -> None:
    assert read("").cleaning.prune_after is None
    assert read("[Cleaning]\nprune_after = off\n").cleaning.prune_after is None
    assert read("[Cleaning]\nprune_after = 90d\n").cleaning.prune_after == 90 * 86400


def test_a_lease_in_the_registry_s_database_takes_one_line(read: Read) -> None:
    """L6, R1: who takes over finds the rest of the State in the same database."""
    config = read(f"[Registry]\ndatabase = {PG}\n[Lease]\nstore = database\n")
    assert config.warnings == ()
    assert config.lease.database is not None
    assert config.lease.database.reveal() == PG
    assert config.journal.database is not None
    assert config.journal.database.reveal() == PG
    assert config.lease.duration == 30


def test_a_lease_in_a_file_needs_no_database(read: Read) -> None:
    config = read(f"[Registry]\ndatabase = {PG}\n")
    assert config.lease.store == "file"
    assert config.journal.database is None
    assert read("").lease.database is None


def test_the_databases_of_lease_and_journal_may_be_others(read: Read) -> None:
    config = read(
        "[Arvados]\nhost = https://a.example\ntoken = abcdefghijklmnop\n"
        f"[Lease]\nstore = database\ndatabase = {PG}\n[Journal]\ndatabase = {PG}2\n"
    )
    assert config.lease.database is not None
    assert config.lease.database.reveal() == PG
    assert config.journal.database is not None
    assert config.journal.database.reveal() == f"{PG}2"
