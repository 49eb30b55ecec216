"""Mutants of what the queue asks for, and of how it is read and packed."""

from __future__ import annotations

from tests.mutation.catalog import TextMutant

ANSWERS, PACKING = "tests/schedulers/test_slurm_answers.py", "tests/core/plan/test_packing.py"
ON_ITS_WAY = (
    "tests/core/plan/test_demand.py::"
    "test_a_booting_node_is_on_its_way_to_its_job_whatever_keeps_us_from_touching_it_d16"
)

QUEUE = (
    TextMutant(
        "U12",
        "small jobs share more memory than a node has",
        "core/plan/packing.py",
        "            and self.ram_mb >= job.ram_mb\n",
        "",
        f"{PACKING}::test_jobs_that_share_are_packed_in_the_order_of_the_queue",
    ),
    TextMutant(
        "U12",
        "a job is put beside another one on a node that it excludes",
        "core/plan/packing.py",
        "            and self.host not in job.not_on\n",
        "",
        f"{PACKING}::test_a_node_that_a_job_leaves_out_does_not_serve_it",
    ),
    TextMutant(
        "U12",
        "what Slurm leaves for its next pass gets a node of its own at once",
        "core/plan/supply.py",
        "                self._count_filling(size, word)\n                continue\n",
        "                continue\n",
        f"{PACKING}::test_a_node_that_turned_busy_lately_still_fills",
    ),
    TextMutant(
        "U12",
        "a node that Slurm keeps for a job of several nodes is booted once more",
        "core/plan/supply.py",
        " or reason in SPARE or (word is not None and _is_planned(word)):",
        " or reason in SPARE:",
        f"{PACKING}::test_a_node_that_is_kept_for_a_job_of_several_nodes_serves_it",
    ),
    TextMutant(
        "L1",
        "a node that no partition names is not there where sinfo answers as text",
        "schedulers/slurm/adapter.py",
        "            self._text_rows,\n",
        "            text.nodes,\n",
        f"{ANSWERS}::test_as_text_a_node_in_no_partition_is_told_too",
    ),
    TextMutant(
        "U12",
        "a job waits for ever beside room that its scheduler does not give it",
        "core/plan/supply.py",
        "if demand_at - word.busy_since > FILLING_S:",
        "if False:",
        f"{PACKING}::test_what_waits_beside_room_for_a_minute_gets_a_node_of_its_own",
    ),
    TextMutant(
        "U12",
        "a node that somebody drained is counted to fill",
        "core/plan/supply.py",
        "if node.draining or node.reserved or not (",
        "if not (",
        f"{PACKING}::test_a_node_that_turned_busy_lately_still_fills",
    ),
    TextMutant(
        "U12",
        "every job of the queue shares its node",
        "core/plan/packing.py",
        "        if not job.shares:\n",
        "        if False:\n",
        f"{PACKING}::test_jobs_that_share_are_packed_in_the_order_of_the_queue",
    ),
    TextMutant(
        "U12",
        "a node is counted to have more than the scheduler believes",
        "core/plan/packing.py",
        "            min(size.cores, believed.cores or size.cores),\n",
        "            size.cores,\n",
        f"{PACKING}::test_a_node_has_no_more_than_the_scheduler_believes",
    ),
    TextMutant(
        "U12",
        "a job that its scheduler ties to certain nodes boots one",
        "core/plan/wishes.py",
        "        if job.unserved is not None:\n            yield",
        "        if False:\n            yield",
        f"{PACKING}::test_what_the_scheduler_itself_says_keeps_a_job_from_booting",
    ),
    TextMutant(
        "D16",
        "a booting node that an operator holds is not on its way to its job",
        "core/judge/nodes.py",
        "seen.bad_s, seen.beneath = beneath.bad_s, beneath.verdict.reason",
        "seen.bad_s = beneath.bad_s",
        f"{ON_ITS_WAY}[held]",
    ),
    TextMutant(
        "D16",
        "nor is one that a listing showed before its create was answered",
        "core/judge/nodes.py",
        "                if outside.verdict.reason is CHANGED:\n",
        "                if False:\n",
        f"{ON_ITS_WAY}[listed-before-its-create-was-answered]",
    ),
    TextMutant(
        "U12",
        "a node is booted under a name that the scheduler lacks",
        "core/plan/demand.py",
        "        if self.names is not None and booted >= self.names.usable:\n",
        "        if False:\n",
        "tests/core/plan/test_names.py::"
        "test_as_many_are_booted_as_get_names_that_the_scheduler_has",
    ),
    TextMutant(
        "U12",
        "the name that a set-up under way will get is counted for the next boot",
        "core/plan/slots.py",
        "        if place >= waiting:\n",
        "        if True:\n",
        "tests/core/plan/test_names.py::"
        "test_slots_that_are_held_or_claimed_give_their_names_to_no_other_node",
    ),
    TextMutant(
        "L1",
        "a job of Slurm's that can't be read is left out",
        "schedulers/slurm/json_output.py",
        '            rows.append(UnreadRow(number, f"{error!r}"[:200]))\n',
        "            continue\n",
        f"{ANSWERS}::test_a_job_that_cant_be_read_is_told_by_its_id_and_spoils_no_other",
    ),
    TextMutant(
        "L1",
        "a node of Slurm's that is told in two ways is believed",
        "schedulers/slurm/rows.py",
        "        found[name] = unknown_node(name)\n",
        "        pass\n",
        f"{ANSWERS}::test_of_a_node_that_is_told_in_two_ways_only_its_name_is_known",
    ),
    TextMutant(
        "L1",
        "what a wishlist says of an error is read as a job",
        "schedulers/wishlist.py",
        '        raise ValueError("has no \'id\'")\n    id = item["id"]\n',
        '        return ""\n    id = item["id"]\n',
        "tests/schedulers/test_wishlist.py::test_bad_output_is_a_failed_poll_and_no_empty_queue",
    ),
    TextMutant(
        "D16",
        "a job in a reservation boots a node that is in none",
        "schedulers/slurm/jobs.py",
        "    if row.reservation:\n",
        "    if False:\n",
        f"{ANSWERS}::test_a_job_in_a_reservation_is_told_d16",
    ),
    TextMutant(
        "U12",
        "Slurm's names count as complete where nodes of other names may register",
        "schedulers/slurm/cluster.py",
        "    return None if most.isdigit() and int(most) > len(names) else names\n",
        "    return names\n",
        f"{ANSWERS}::test_the_names_that_slurms_nodes_can_have",
    ),
)
