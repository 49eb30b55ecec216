"""The registry's HTTP face against the `nodes` contract of the Arvados server, line by line.

Each test quotes the words of the contract it proves (lists in test_nodes_list_wire), and the last
one fails while any of them are quoted by none: nothing is built on a second reading of the code.
"""

from __future__ import annotations

import json
import re

import pytest
import requests

from tests.cases import cases
from tests.contract import test_nodes_list_wire
from tests.contract.nodes_api import CONTRACT, NOBODY, NOT_BUILT, QUOTED, TOKEN, at, flat, quotes


@quotes(
    "uuid `zzzzz-7ekkf-` + 15 base-36 characters",
    "times `YYYY-MM-DDTHH:MM:SS.nnnnnnnnnZ`",
    "create answers 200",
)
def test_a_new_node_has_the_uuid_and_the_times_of_the_contract(api):
    answer = api.call("POST", json={})
    assert answer.status_code == 200
    node = answer.json()
    assert re.fullmatch(r"zzzzz-7ekkf-[0-9a-z]{15}", node["uuid"])
    assert node["created_at"] == node["modified_at"] == at(api.clock)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", node["created_at"])


@quotes(
    "Fields: href, kind `arvados#node`, etag, uuid, owner_uuid, created_at, "
    "modified_by_client_uuid, modified_by_user_uuid, modified_at, hostname, domain, ip_address, "
    "last_ping_at, slot_number, status, job_uuid, crunch_worker_state, properties",
    "administrators also first_ping_at, info, nameservers",
)
def test_a_node_has_these_fields_and_no_others(api):
    node = api.create()
    assert set(node) == {
        *("href", "kind", "etag", "uuid", "owner_uuid", "created_at", "modified_by_client_uuid"),
        *("modified_by_user_uuid", "modified_at", "hostname", "domain", "ip_address"),
        *("last_ping_at", "slot_number", "status", "job_uuid", "crunch_worker_state"),
        *("properties", "first_ping_at", "info", "nameservers"),
    }
    assert node["kind"] == "arvados#node"
    assert node["href"].endswith(f"/nodes/{node['uuid']}")
    assert node["domain"] == "example.org"
    assert node["info"]["ping_secret"]
    assert node["slot_number"] is node["hostname"] is node["ip_address"] is None
    assert node == api.get(node)
    assert [node] == api.list()["items"]


@quotes(
    "status: never pinged = `pending`, after 5 minutes `startup-fail`",
    "last ping over an hour ago `missing`; else `running`",
)
def test_status_follows_the_age_and_the_last_ping(api):
    node = api.create()
    api.clock.advance(300)
    assert api.get(node)["status"] == "pending"
    api.clock.advance(0.001)
    assert api.get(node)["status"] == "startup-fail"
    assert api.ping(node)["status"] == "running"
    api.clock.advance(3600)
    assert api.get(node)["status"] == "running"
    api.clock.advance(0.001)
    assert api.get(node)["status"] == "missing"


@quotes(
    "crunch_worker_state: no slot = `down`",
    "info.slurm_state alloc/comp/mix/drng = `busy`, idle = `idle`, else `down`",
)
@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("alloc", "busy"),
        ("comp", "busy"),
        ("mix", "busy"),
        ("drng", "busy"),
        ("idle", "idle"),
        ("down*", "down"),
        (None, "down"),
        (3, "down"),
    ],
)
def test_crunch_worker_state_is_derived_from_slot_and_slurm_state(api, said, shown):
    with_slot = api.create({"info": {"slurm_state": said}}, assign_slot="true")
    assert with_slot["crunch_worker_state"] == shown
    assert api.put(with_slot, {"slot_number": 0})["crunch_worker_state"] == shown
    assert api.put(with_slot, {"slot_number": None})["crunch_worker_state"] == "down"


@quotes("ping (POST, no token): no secret 422, wrong secret 401, unknown uuid 404")
@cases(
    ("secret", "status"),
    {
        "no-secret": (None, 422),
        "empty-secret": ("", 422),
        "wrong-secret": ("wrong", 401),
        "secret-not-ascii": ("wr\u00f6ng", 401),
    },
)
def test_a_ping_without_the_secret_is_refused_and_changes_nothing(api, secret, status):
    node = api.create()
    assert api.try_ping(node, ping_secret=secret).status_code == status
    assert api.get(node) == node
    assert api.try_ping({**node, "uuid": NOBODY}, ping_secret=secret).status_code == 404
    assert api.try_ping({**node, "uuid": "nonsense"}, ping_secret=secret).status_code == 404


@quotes("another instance_id 422")
@pytest.mark.parametrize("name", ["instance_id", "ec2_instance_id"])
def test_a_ping_from_another_instance_is_refused_and_changes_nothing(api, name):
    node = api.ping(api.create(), **{name: "i-1"})
    assert node["info"]["ec2_instance_id"] == "i-1"
    api.clock.advance(1)
    assert api.try_ping(node, **{name: "i-2"}).status_code == 422
    assert api.get(node) == node
    assert api.ping(node)["info"]["ec2_instance_id"] == "i-1"


@quotes(
    "Sets last_ping_at",
    "when ip_address is null, sets it (local_ipv4 or the caller's) and first_ping_at, never "
    "overwrites",
)
def test_the_first_ping_sets_address_and_first_ping_at_once_and_for_all(api):
    told = api.ping(api.create(), local_ipv4="10.0.0.7")
    first = at(api.clock)
    assert told["ip_address"] == "10.0.0.7"
    assert told["first_ping_at"] == told["last_ping_at"] == first
    api.clock.advance(1)
    again = api.ping(told, local_ipv4="10.0.0.8")
    assert again["ip_address"] == "10.0.0.7"
    assert again["first_ping_at"] == first
    assert again["last_ping_at"] == again["modified_at"] == at(api.clock) != first
    assert api.ping(api.create())["ip_address"] == "127.0.0.1"


@quotes("and takes that address from every other record")
def test_a_first_ping_takes_its_address_from_the_others_and_shows_it_there(api):
    loser = api.ping(api.create(), local_ipv4="10.0.0.7")
    bystander = api.ping(api.create(), local_ipv4="10.0.0.8")
    api.clock.advance(300)
    bystander = api.ping(bystander)
    assert api.ping(api.create(), local_ipv4="10.0.0.7")["ip_address"] == "10.0.0.7"
    left = api.get(loser)
    assert left["ip_address"] is None
    assert left["modified_at"] == at(api.clock)
    assert left["etag"] != loser["etag"]
    kept = {
        name: loser[name] for name in loser if name not in ("ip_address", "modified_at", "etag")
    }
    assert kept.items() <= left.items()
    assert api.get(bystander) == bystander


def test_a_record_that_pings_keeps_its_address_and_its_first_ping_whoever_names_it(api):
    """X12: where our registry differs from the contract. A node says itself which address is its
    own; one packet took a sibling's, whose next ping then was a first one again."""
    keeper = api.ping(api.create(), local_ipv4="10.0.0.7")
    api.clock.advance(299)
    assert api.ping(api.create(), local_ipv4="10.0.0.7")["ip_address"] == "10.0.0.7"
    assert api.get(keeper) == keeper
    again = api.ping(keeper, local_ipv4="10.0.0.7")
    assert (again["ip_address"], again["first_ping_at"]) == ("10.0.0.7", keeper["first_ping_at"])


def test_a_first_ping_is_the_first_though_the_address_was_taken_since(api):
    """X12: a node that was quiet for a while loses its address, and not its age."""
    loser = api.ping(api.create(), local_ipv4="10.0.0.7")
    api.clock.advance(300)
    api.ping(api.create(), local_ipv4="10.0.0.7")
    back = api.ping(loser, local_ipv4="10.0.0.8")
    assert (back["ip_address"], back["first_ping_at"]) == ("10.0.0.8", loser["first_ping_at"])


@quotes("then assigns a slot", "none free 422", "attributes are saved first")
def test_a_ping_gets_a_slot_and_is_saved_also_when_none_is_free(api):
    nodes = [api.ping(api.create()) for _ in range(4)]
    assert [node["slot_number"] for node in nodes] == [1, 2, 3, 4]
    assert [node["hostname"] for node in nodes] == [f"compute{slot}" for slot in (1, 2, 3, 4)]
    fifth = api.create()
    assert api.try_ping(fifth, local_ipv4="10.0.0.9").status_code == 422
    saved = api.get(fifth)
    assert saved["slot_number"] is saved["hostname"] is None
    assert saved["last_ping_at"] == saved["first_ping_at"] == at(api.clock)
    assert saved["ip_address"] == "10.0.0.9"


@quotes(
    "total_cpu_cores / _ram_mb / _scratch_mb become integers in properties, absent ones are deleted"
)
def test_totals_become_integers_and_leave_the_other_properties_alone(api):
    node = api.create({"properties": {"nodemanager_pool": "p", "total_ram_mb": 1}})
    told = api.ping(node, total_cpu_cores="4", total_ram_mb="3953.2", total_scratch_mb="100")
    totals = {"total_cpu_cores": 4, "total_ram_mb": 3953, "total_scratch_mb": 100}
    assert told["properties"] == {"nodemanager_pool": "p"} | totals
    told = api.ping(node, total_cpu_cores="8", total_ram_mb="")
    assert told["properties"] == {"nodemanager_pool": "p", "total_cpu_cores": 8}


@quotes("Answers the administrator's view.")
def test_a_ping_answers_the_administrators_view(api):
    node = api.create()
    told = api.ping(node)
    assert told == api.get(node)
    assert {"first_ping_at", "info", "nameservers"} <= set(told)


@quotes("assign_slot: nothing to do when slot > 0", "lowest free of 1..max under a unique index")
def test_slots_are_the_lowest_free_and_no_two_records_hold_one(api):
    nodes = [api.create(assign_slot="true") for _ in range(4)]
    assert [node["slot_number"] for node in nodes] == [1, 2, 3, 4]
    assert api.put(nodes[2], {}, assign_slot="true")["slot_number"] == 3
    clash = api.call("PUT", f"/{nodes[2]['uuid']}", json={"node": {"slot_number": 4}})
    assert clash.status_code == 422
    assert api.get(nodes[2])["slot_number"] == 3
    for freed in (3, 1):
        api.put(nodes[freed - 1], {"slot_number": None})
    assert api.create(assign_slot="true")["slot_number"] == 1
    assert api.create(assign_slot="true")["slot_number"] == 3


@quotes("hostname from the pattern only if null")
def test_a_hostname_that_is_there_stays(api):
    named = api.create({"hostname": "gpu-1"}, assign_slot="true")
    assert (named["slot_number"], named["hostname"]) == (1, "gpu-1")
    assert api.create(assign_slot="true")["hostname"] == "compute2"


@quotes("none free 422", "attributes are saved first")
def test_attributes_are_saved_even_when_no_slot_is_free(api):
    for _ in range(4):
        api.create(assign_slot="true")
    node = api.create()
    answer = api.call(
        "PUT", f"/{node['uuid']}", json={"node": {"domain": "d"}}, params={"assign_slot": "true"}
    )
    assert answer.status_code == 422
    assert api.get(node)["domain"] == "d"
    assert api.get(node)["slot_number"] is None


@quotes("PUT of info or properties replaces the whole hash")
def test_put_replaces_info_and_properties_whole(api):
    node = api.create({"properties": {"a": 1}, "info": {"b": 2, "ping_secret": "s3cret"}})
    assert node["info"] == {"b": 2, "ping_secret": "s3cret"}
    node = api.put(node, {"properties": {"c": 3}})
    assert node["properties"] == {"c": 3}
    assert node["info"] == {"b": 2, "ping_secret": "s3cret"}
    assert api.put(node, {"info": {"ping_secret": "other"}})["info"] == {"ping_secret": "other"}


@quotes("**info without ping_secret makes a new secret** (so a clean locks the old node out)")
def test_info_without_a_secret_makes_a_new_one_that_locks_the_node_out(api):
    node = api.ping(api.create())
    cleaned = api.put(node, {"info": {"last_action": "cleaned"}})
    assert cleaned["info"].pop("ping_secret") not in (None, "", node["info"]["ping_secret"])
    assert cleaned["info"] == {"last_action": "cleaned"}
    assert api.try_ping(node).status_code == 401


@quotes("modified_at moves only when a field changes.")
def test_a_put_that_changes_nothing_moves_nothing(api):
    node = api.create({"hostname": "h", "properties": {"a": 1}})
    api.clock.advance(1)
    same = {name: node[name] for name in ("hostname", "properties", "info", "ip_address")}
    assert api.put(node, same) == node
    assert api.put(node, node) == node
    assert api.put(node, {"properties": {"a": True}})["modified_at"] == at(api.clock)


@quotes("No If-Match.")
def test_an_if_match_is_passed_over(api):
    node = api.create()
    answer = api.call(
        "PUT", f"/{node['uuid']}", json={"domain": "d"}, headers={"If-Match": '"other"'}
    )
    assert answer.status_code == 200


@quotes('bare and `{"node": {...}}` bodies both accepted.')
def test_bodies_may_be_bare_or_under_node(api):
    bare = api.call("POST", json={"hostname": "h1"}).json()
    assert bare["hostname"] == "h1"
    assert api.call("POST", json={"node": {"hostname": "h2"}}).json()["hostname"] == "h2"
    path = f"/{bare['uuid']}"
    assert api.call("PUT", path, json={"hostname": "h3"}).json()["hostname"] == "h3"
    assert api.call("PUT", path, json={"node": {"hostname": "h4"}}).json()["hostname"] == "h4"
    form = {"node": json.dumps({"hostname": "h5"})}
    assert api.call("PUT", path, data=form).json()["hostname"] == "h5"


@quotes('errors `{"errors": ["..."], "error_token": "..."}`', "no token 401")
@pytest.mark.parametrize(
    "token",
    ["", "OAuth2", "OAuth2 wrong", "Bearer wrong", f"Basic {TOKEN}", TOKEN],
    ids=["none", "empty", "wrong", "wrong-bearer", "another-scheme", "bare"],
)
def test_without_the_token_nothing_is_answered_or_changed(api, token):
    node = api.create()
    one = f"/{node['uuid']}"
    for verb, path in [("GET", ""), ("POST", ""), ("GET", one), ("PUT", one), ("DELETE", one)]:
        answer = api.call(verb, path, token=token)
        assert answer.status_code == 401
        assert set(answer.json()) == {"errors", "error_token"}
        assert all(isinstance(line, str) for line in answer.json()["errors"])
        assert isinstance(answer.json()["error_token"], str)
    assert api.list()["items"] == [node]


@pytest.mark.parametrize("token", [f"OAuth2 {TOKEN}", f"Bearer {TOKEN}", f"bearer {TOKEN}"])
def test_both_spellings_of_the_token_are_taken(api, token):
    assert api.call("GET", token=token).status_code == 200


def test_a_deleted_node_is_answered_once_more_and_gone(api):
    node = api.create()
    assert api.call("DELETE", f"/{node['uuid']}").json() == node
    assert api.call("GET", f"/{node['uuid']}").status_code == 404
    assert api.call("DELETE", f"/{node['uuid']}").status_code == 404


def test_slot_zero_written_by_hand_stays_until_a_ping_gives_a_slot(api):
    node = api.put(api.create(), {"slot_number": 0, "hostname": "compute0"})
    assert api.get(node)["slot_number"] == 0
    told = api.ping(node)
    assert (told["slot_number"], told["hostname"]) == (1, "compute0")


def test_a_ping_tells_the_worker_state_and_the_next_one_may_not(api):
    node = api.create()
    assert api.ping(node, worker_state="BUSY ")["info"]["worker_state"] == "busy"
    assert "worker_state" not in api.ping(node)["info"]


@pytest.mark.parametrize("where", ["params", "json"])
def test_a_ping_may_carry_its_parameters_in_the_query_or_as_json(api, where):
    node = api.create()
    told = {"ping_secret": node["info"]["ping_secret"], "total_cpu_cores": 4}
    url = f"{api.base}/arvados/v1/nodes/{node['uuid']}/ping"
    answer = requests.post(url, timeout=10, **{where: told})
    assert answer.status_code == 200
    assert answer.json()["properties"] == {"total_cpu_cores": 4}


def test_every_clause_of_the_contract_is_quoted():
    assert test_nodes_list_wire.FILTERS
    left = flat(CONTRACT)
    for clause in sorted([*QUOTED, *NOT_BUILT], key=len, reverse=True):
        left = left.replace(flat(clause), " ")
    assert re.sub(r"[-\s.;,:]", "", left) == ""
