"""Two options together: refused, or read the safe way with a warning (S1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases import cases
from tests.config.conftest import Read, Refused


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


def test_a_stale_window_just_above_poll_staleness_is_left_alone(read: Read) -> None:
    config = read("[Daemon]\npoll_stale_after = 600\nnode_stale_after = 601\n")
    assert config.daemon.poll_stale_after == 600
    assert config.warnings == ()


def test_settle_below_one_poll_of_the_cloud_is_one_poll_of_the_cloud(read: Read) -> None:
    config = read("[Cleaning]\nsettle = 10\n[Daemon]\ncloudlist_poll_time = 30\n")
    assert config.cleaning.settle == 30
    assert config.origin("Cleaning", "settle") == "adjusted"
    assert config.warnings == (
        f"{config.path}:4: [Daemon] cloudlist_poll_time = 30: [Cleaning] settle = 10 (line 2) is "
        "below this, one poll of the cloud; using settle = 30",
    )


def test_a_cap_on_polls_below_a_poll_is_that_poll(read: Read) -> None:
    config = read("[Daemon]\nmax_poll_time = 30\n")
    assert config.daemon.max_poll_time == 60
    assert len(config.warnings) == 1


@cases(
    ("text", "line"),
    {
        "against-the-default-poll": ("[Daemon]\npoll_stale_after = 119\n", 2),
        "long-poll": ("[Daemon]\npoll_time = 301\n[Cleaning]\nsettle = 301\n", 2),
        "longest-poll-counts": ("[Daemon]\nwishlist_poll_time = 301\n", 2),
        "after-adjustment": ("[Daemon]\npoll_time = 50\n\nnode_stale_after = 199\n", 4),
    },
)
def test_polls_fresh_for_less_than_two_polls_are_refused(
    refused: Refused, text: str, line: int
) -> None:
    (problem,) = refused(text)
    assert problem.startswith(f"{line}: [Daemon] ")
    assert "two polls" in problem


def test_polls_fresh_for_exactly_two_polls_will_do(read: Read) -> None:
    assert read("[Daemon]\npoll_stale_after = 120\n").daemon.poll_stale_after == 120


@cases(
    ("text", "problem"),
    {
        "max-later": (
            "min_nodes = 4\nmax_nodes = 2\n",
            (
                "3: [Daemon] max_nodes = 2: [Daemon] min_nodes = 4 (line 2) asks for more nodes "
                "than this allows"
            ),
        ),
        "min-later": (
            "max_nodes = 2\nmin_nodes = 4\n",
            (
                "3: [Daemon] min_nodes = 4: this asks for more nodes than [Daemon] max_nodes = 2 "
                "(line 2) allows"
            ),
        ),
        "against-a-default": (
            "min_nodes = 4\n",
            (
                "2: [Daemon] min_nodes = 4: this asks for more nodes than [Daemon] max_nodes = 1 "
                "(default) allows"
            ),
        ),
    },
)
def test_a_contradiction_is_told_at_the_later_line_and_names_both(
    refused: Refused, text: str, problem: str
) -> None:
    assert refused(f"[Daemon]\n{text}") == [problem]


def test_a_contradiction_is_found_when_other_options_are_wrong(refused: Refused) -> None:
    problems = refused("[Daemon]\nmin_nodes = 4\nwatchdog = 0\nmax_nodes = 2\nbogus = 1\n")
    assert [problem.split(":")[0] for problem in problems] == ["3", "4", "5"]


def test_more_nodes_than_slots_is_a_warning(read: Read) -> None:
    config = read("[Daemon]\nmax_nodes = 8\n[Registry]\nslots = 4\n")
    (warning,) = config.warnings
    assert "[Registry] slots = 4" in warning
    assert "[Daemon] max_nodes = 8 (line 2)" in warning


@cases(
    ("text", "problem"),
    {
        "arvados": (
            "[Arvados]\ntoken = t\nhost = http://a.example\n",
            (
                "3: [Arvados] host = http://a.example: this is plain http to another machine, "
                "which [Arvados] insecure = no (default) forbids"
            ),
        ),
        "ping-host": (
            "[Cloud Create]\nping_host = http://a.example\n",
            (
                "2: [Cloud Create] ping_host = http://a.example: this is plain http to another "
                "machine, which [Arvados] insecure = no (default) forbids"
            ),
        ),
        "port": ("[Cloud Create]\nping_host = hostname:port\n", "2: [Cloud Create] ping_host"),
    },
)
def test_plain_http_to_another_machine_is_refused(
    refused: Refused, text: str, problem: str
) -> None:
    (told,) = refused(text)
    assert told.startswith(problem)


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


def test_the_arvados_store_needs_host_and_token(refused: Refused) -> None:
    assert refused("[Arvados]\nhost = a.example\n") == [
        "2: [Arvados] host = a.example: the Arvados store needs [Arvados] token"
    ]
    assert refused("[Records]\nprovider = arvados\n") == [
        "2: [Records] provider = arvados: the Arvados store needs [Arvados] host",
        "2: [Records] provider = arvados: the Arvados store needs [Arvados] token",
    ]


def test_the_store_is_arvados_where_its_host_is_given_unless_the_file_says_so(read: Read) -> None:
    arvados = read("[Arvados]\nhost = a.example\ntoken = t\n[Records]\nslots = 9\n")
    assert (arvados.records.provider, arvados.slots) == ("arvados", 9)
    registry = read(
        "[Arvados]\nhost = a.example\ntoken = t\n[Records]\nprovider = registry\nslots = 9\n"
    )
    assert (registry.records.provider, registry.slots) == ("registry", 64)
    assert len(registry.warnings) == 2


def test_a_certificate_needs_its_key(refused: Refused, read: Read) -> None:
    assert refused("[Registry]\ntls_cert = /a.crt\n") == [
        "2: [Registry] tls_cert = /a.crt: this needs [Registry] tls_key = (default) as well"
    ]
    assert read("[Registry]\ntls_cert = /a.crt\ntls_key = /a.key\n").warnings == ()


def test_a_token_that_may_only_look_is_another_than_the_one_that_may_act(refused: Refused) -> None:
    (problem,) = refused("[Manage]\nManagementToken = x1\nread_token = x1\n")
    assert "3: [Manage] read_token" in problem
    assert "[Manage] ManagementToken = *** (line 2)" in problem
    assert "x1" not in problem


def test_one_port_for_two_servers_is_refused(refused: Refused) -> None:
    (problem,) = refused("[Registry]\nlisten = 0.0.0.0:8989\n[Manage]\nport = 8989\n")
    assert problem.startswith("4: [Manage] port = 8989: ")
    assert "[Registry] listen = 0.0.0.0:8989 (line 2)" in problem


def test_a_management_server_on_the_network_is_a_warning(read: Read) -> None:
    assert len(read("[Manage]\nport = 8989\naddress = 0.0.0.0\n").warnings) == 1
    assert len(read("[Manage]\naddress = 0.0.0.0\n").warnings) == 0


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


@cases(
    "text",
    {
        "image": "[Cloud Create]\nimage_id = ami-0a1b2c3d4e5f60718\n",
        "host": "[Cloud Credentials]\nauth_url = https://example.organic.net\n",
        "secret": "[Cloud Credentials]\nsecret = SECRETS\n",
    },
)
def test_a_value_that_is_somebodys_own_is_no_warning(read: Read, text: str) -> None:
    assert read(text).warnings == ()


SEATS = "[Daemon]\ndispatcher = slurm\n[Records]\nprovider = slurm\n"


@pytest.mark.parametrize(
    "option", ["slots = 64", "listen = 0.0.0.0:8990", "hostname = node%(slot_number)d"]
)
def test_what_a_registry_of_its_own_would_use_is_a_warning_beside_slurm_s_nodes(
    read: Read, option: str
) -> None:
    (warning,) = read(f"{SEATS}[Registry]\n{option}\n").warnings
    assert f"pool.cfg:6: [Registry] {option}: not used" in warning
    assert "leave it out" in warning
    assert read(f"{SEATS}[Registry]\ndatabase = sqlite:////tmp/x.db\n").warnings == ()


def test_where_nodes_ping_is_a_warning_beside_slurm_s_nodes(read: Read) -> None:
    (warning,) = read(f"{SEATS}[Cloud Create]\nping_host = ping.lab.net\n").warnings
    assert "pool.cfg:6: [Cloud Create] ping_host = ping.lab.net: not used" in warning


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


def test_a_price_of_zero_under_a_cap_is_a_warning(read: Read) -> None:
    config = read("[Size a]\nprice = 0\n[Daemon]\nmax_total_price = 1\n")
    assert len(config.warnings) == 1
    assert read("[Size a]\nprice = 0\n").warnings == ()


@cases(
    ("text", "warned"),
    {
        "slurm-queue": ("[Arvados]\nslurm_queue = yes\n", True),
        "jobs-queue": ("[Arvados]\njobs_queue = yes\n", True),
        "off": ("[Arvados]\njobs_queue = no\nslurm_queue = off\n", False),
        "blank": ("[Daemon]\ndispatcher =\n", False),
    },
)
def test_an_option_of_the_forerunner_that_does_nothing_here_says_so(
    read: Read, text: str, warned: bool
) -> None:
    assert bool(read(text).warnings) is warned


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


COMMANDS = "".join(
    f"{verb}_command = /bin/true\n" for verb in ("nodes", "queue", "drain", "resume")
)


@cases(
    ("text", "problem"),
    {
        "unknown": ("[Daemon]\ndispatcher = pbs\n", "must be ping or slurm or command"),
        "a-verb-is-missing": (
            f"[Daemon]\ndispatcher = command\n[Scheduler]\n{COMMANDS}",
            "[Daemon] dispatcher = command: needs [Scheduler] down_command",
        ),
        "cancelled-and-not-told": (
            (
                f"[Daemon]\ndispatcher = command\n[Scheduler]\n{COMMANDS}down_command = /bin/true\n"
                "cancel_command = /bin/true\ncancel_unsatisfiable = yes\n"
            ),
            "[Scheduler] cancel_unsatisfiable = yes: needs [Scheduler] comment_command",
        ),
        "with-a-wishlist": (
            "[Daemon]\ndispatcher = slurm\nwishlist_command = /bin/true\n",
            "two sources of demand",
        ),
        "a-poll-older-than-fresh": (
            "[Daemon]\ndispatcher = slurm\n[Slurm]\ntimeout = 300\n",
            "[Slurm] timeout = 300",
        ),
        "conf": ("[Slurm]\nconf = slurm.conf\n", "must be an absolute path"),
        "partitions": ("[Slurm]\npartitions = a;b c\n", "separated by commas"),
    },
)
def test_a_dispatcher_that_can_not_work_is_refused(
    refused: Refused, text: str, problem: str
) -> None:
    (told,) = refused(text)
    assert problem in told


@cases(
    ("text", "told"),
    {
        "slurm": ("[Slurm]\npartitions = a\n", "dispatcher is ping"),
        "scheduler": (
            "[Daemon]\ndispatcher = slurm\n[Scheduler]\ntimeout = 5\n",
            "dispatcher is slurm",
        ),
    },
)
def test_options_of_a_scheduler_that_is_not_asked_are_a_warning(
    read: Read, text: str, told: str
) -> None:
    (warning,) = read(text).warnings
    assert told in warning


def test_pruning_needs_a_store_that_can_delete_on_a_condition(refused: Refused) -> None:
    arvados = "[Arvados]\nhost = api.example.org\ntoken = t\n"
    (problem,) = refused(f"{arvados}[Cleaning]\nprune_after = 90d\n")
    assert "needs a registry" in problem


def test_pruning_is_off_unless_a_duration_is_given(read: Read) -> None:
    assert read("").cleaning.prune_after is None
    assert read("[Cleaning]\nprune_after = off\n").cleaning.prune_after is None
    assert read("[Cleaning]\nprune_after = 90d\n").cleaning.prune_after == 90 * 86400


@cases(
    ("scratch", "said"),
    {
        "in-gb": ("100", "in MB, so this is almost nothing; for GB write 100000"),
        "in-mb": ("100000", None),
        "none": ("0", None),
    },
)
def test_scratch_space_that_is_meant_in_gb_is_told_n3(
    read: Read, scratch: str, said: str | None
) -> None:
    text = "[Daemon]\nmin_nodes = 1\n[Cloud]\nprovider = ec2\n[Cloud Create]\nimage_id = ami-1\n"
    config = read(f"{text}[Size m5.large]\ncores = 2\nscratch = {scratch}\n", cloud=False)
    told = [one for one in config.warnings if "] scratch = " in one]
    assert [said is not None and said in one for one in told] == [True] * (said is not None)


@pytest.mark.parametrize("name", ["a-preflight", "-preflight"])
def test_a_pool_of_a_pre_flight_is_nobody_else_s(refused: Refused, name: str) -> None:
    problems = refused(f"[Daemon]\npool = x{name}\n")
    assert [one for one in problems if "check-cloud --boot" in one]


@pytest.mark.parametrize("provider", ["local", "libvirt", "dummy"])
@pytest.mark.parametrize("section", ["Cloud", "Size small"])
def test_places_are_refused_where_the_cloud_has_only_one(
    refused: Refused, provider: str, section: str
) -> None:
    size = "[Size small]\n" if section == "Size small" else ""
    problems = refused(f"[Cloud]\nprovider = {provider}\n{size}places = a, b\n", cloud=False)
    assert any(
        f"[{section}] places = a, b: {provider} boots its nodes in one place" in one
        for one in problems
    ), problems


@pytest.mark.parametrize("text", ["a,,b", "a, b, a"])
def test_places_without_a_name_or_named_twice_are_refused(refused: Refused, text: str) -> None:
    problems = refused(f"[Cloud]\nprovider = ec2\nplaces = {text}\n", cloud=False)
    assert any(f"[Cloud] places = {text}: " in one for one in problems), problems


def test_more_spare_nodes_than_max_nodes_are_told(read: Read) -> None:
    sizes = "[Size a]\nspare_nodes = 1\n[Size b]\nspare_nodes = 2\n"
    config = read(f"[Daemon]\nmax_nodes = 2\n[Cloud]\nprovider = ec2\n{sizes}", cloud=False)
    (told,) = (one for one in config.warnings if "all sizes" in one)
    assert "[Size b] spare_nodes = 2: all sizes together keep 3 spare nodes, more than" in told


def test_an_order_of_less_than_two_places_has_no_effect(read: Read) -> None:
    sizes = "[Size a]\nplace_order = spread\n[Size b]\nplace_order = first\nplaces = z-1, z-2\n"
    config = read(f"[Cloud]\nprovider = ec2\nplaces = z-1\n{sizes}", cloud=False)
    (told,) = (one for one in config.warnings if "place_order" in one)
    assert "[Size a] place_order = spread: has no effect" in told


PG = "postgresql://u@db/main"


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


@cases(
    ("text", "told"),
    {
        "no-database": (
            "[Lease]\nstore = database\n",
            "[Lease] database = (default): postgresql://... that all managers",
        ),
        "records-in-a-file": (
            f"[Lease]\nstore = database\ndatabase = {PG}\n",
            "registry.db (default): postgresql://..., since other machines have no such file",
        ),
        "no-shared-journal": (
            f"[Registry]\ndatabase = {PG}\n[Lease]\nstore = database\n[Journal]\ndatabase =\n",
            "who takes over goes on with what is open there (R1)",
        ),
        "too-short": (
            f"[Registry]\ndatabase = {PG}\n[Lease]\nstore = database\nduration = 2\n",
            "[Lease] duration = 2: is too short: a lease lasts 3 s at least",
        ),
    },
)
def test_a_lease_that_other_machines_can_not_share_is_refused(
    refused: Refused, text: str, told: str
) -> None:
    assert any(told in problem for problem in refused(text)), refused(text)
