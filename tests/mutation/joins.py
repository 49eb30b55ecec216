"""Up is what the scheduler hears (D17), and what boots come to (B5)."""

from __future__ import annotations

from tests.mutation.catalog import TextMutant

_TESTS = "tests/core/judge/test_joining.py::"

JOINS = (
    TextMutant(
        "D17",
        "time in which the scheduler did not answer counts as one in which it did not hear a node",
        "core/observe/boots.py",
        "return listing.started_at - since",
        "return now - since",
        "tests/core/judge/test_joining.py::"
        "test_time_in_which_the_scheduler_did_not_answer_counts_for_nothing_d17",
    ),
    TextMutant(
        "D17",
        "a node that a late order of ours called gone is left so",
        "core/plan/errands.py",
        "if is_called_gone and word.node.responds:",
        "if False:",
        "tests/core/plan/test_errands.py::"
        "test_a_node_that_we_called_gone_and_that_answers_is_resumed",
    ),
    TextMutant(
        "B5",
        "a node that we gave up is counted once more while its record waits",
        "actors/daemon/workflow_shell.py",
        "self._boot_failures.failed(node, gone.size, life)",
        "self._boot_failures.failed(node, gone.size)",
        "tests/actors/test_boot_loops.py::"
        "test_a_failed_boot_whose_record_is_freed_late_is_counted_once",
    ),
    TextMutant(
        "D17",
        "a node that its scheduler never called up satisfies min_nodes",
        "core/judge/node_paired.py",
        "    view.counts = reason not in NOT_UP\n",
        "",
        f"{_TESTS}test_what_says_nothing_of_its_slurmd_ends_it_never_d17",
    ),
    TextMutant(
        "D16",
        "a node that went down in the scheduler is replaced",
        "core/judge/node_paired.py",
        "NOT_UP = frozenset({Reason.UNJOINED, Reason.UNSCHEDULED})",
        "NOT_UP = frozenset({Reason.UNJOINED, Reason.UNSCHEDULED, Reason.DOWN_IN_SCHEDULER})",
        "tests/core/judge/test_scheduled.py::test_what_the_scheduler_sets_aside_is_no_lack_d16",
    ),
    TextMutant(
        "D17",
        "a node that never joins is ended whatever time its scheduler answered",
        "core/judge/node_paired.py",
        '    if not measures or measures["unjoined_s"] <= measures["limit_s"]:',
        "    if not measures:",
        f"{_TESTS}test_time_in_which_the_scheduler_was_not_reached_does_not_count_d17",
    ),
    TextMutant(
        "D8",
        "a node that fell silent goes for want of a join, long before its window",
        "core/judge/node_paired.py",
        "    if facts.counted_silence(subject) is not None:\n        return None\n    bad_s",
        "    bad_s",
        f"{_TESTS}test_one_that_fell_silent_goes_for_its_silence_d8",
    ),
    TextMutant(
        "D9",
        "nodes that never join are no wave, however many they are",
        "core/judge/node_paired.py",
        "Reason.NOT_JOINED, measures, bad_s=bad_s)",
        "Reason.NOT_JOINED, measures, bad_s=None)",
        f"{_TESTS}test_many_that_never_join_are_a_wave_and_none_is_ended_d9_d17",
    ),
    TextMutant(
        "B5",
        "failed boots one after the other are a wave, and none is ended any more",
        "core/observe/nodes_since.py",
        "else not one.is_boot\n",
        "else True\n",
        f"{_TESTS}test_those_that_fail_one_after_the_other_are_no_wave_d9_b5",
    ),
    TextMutant(
        "D17",
        "a node that its scheduler called up before this run is ended as never joined",
        "core/observe/hostnames.py",
        "            waits = _is_within_grace(record, at, clock, settings)\n",
        "            waits = True\n",
        f"{_TESTS}test_nobody_ends_one_that_nobody_watched_from_its_boot_on_d17",
    ),
    TextMutant(
        "T1",
        "a clock set back makes an old claim young",
        "core/observe/hostnames.py",
        "    is_known = age_s > -CLOCK_STEP_S and clock.since(claim.at, at) > clock.known_since\n",
        "    is_known = True\n",
        f"{_TESTS}test_a_claim_from_before_a_jump_is_of_no_known_age_d17_t1",
    ),
    TextMutant(
        "R4",
        "what an earlier run saw join has not joined for this one",
        "core/observe/hostnames.py",
        "waits=one.waits and kept[key].waits,",
        "waits=one.waits,",
        f"{_TESTS}test_what_either_run_saw_join_has_joined_d17_r4",
    ),
    TextMutant(
        "R4",
        "who has joined is not kept over a restart",
        "actors/daemon/observations.py",
        "        if context.history.hostnames is not before.hostnames:\n"
        "            context.journal_writer.keep(HOSTNAMES, context.history.hostnames)\n"
        "        records = context.history.records\n",
        "        records = context.history.records\n",
        "tests/actors/test_boot_loops.py::test_who_has_joined_is_known_after_a_restart_d17_r4",
    ),
    TextMutant(
        "D17",
        "an answer of long ago says that a node is not up",
        "core/observe/boots.py",
        "if since is None or listing is None or now - listing.started_at > "
        "settings.poll_stale_after:",
        "if since is None or listing is None:",
        f"{_TESTS}test_an_old_answer_says_of_none_that_it_is_not_up_d17",
    ),
    TextMutant(
        "D17",
        "a gap between the scheduler's answers counts as if it had said something",
        "core/observe/scheduled.py",
        "    unjoined = history.unjoined if gap_s <= settings.poll_stale_after else {}\n",
        "    unjoined = history.unjoined\n",
        f"{_TESTS}test_time_in_which_the_scheduler_was_not_reached_does_not_count_d17",
    ),
    TextMutant(
        "D17",
        "an answer from before a node's first ping says that it has joined",
        "core/observe/scheduled.py",
        "        if not _pinged_by(record, history, at):\n",
        "        if False:\n",
        f"{_TESTS}test_a_word_from_before_its_first_ping_is_of_the_machine_before_d17",
    ),
    TextMutant(
        "D17",
        "who pinged before an answer, and was listed after it, was not called up by it",
        "core/observe/scheduled.py",
        "_after_joins(history, newest, {})[0]",
        "history.hostnames",
        f"{_TESTS}test_one_whose_first_ping_is_listed_only_after_the_answer_that_called_it_up_has_joined"
        "_d17",
    ),
    TextMutant(
        "D17",
        "two nodes of one hostname are ended, as their scheduler lists neither",
        "core/observe/scheduled.py",
        "or name is None or name in shared or",
        "or name is None or",
        f"{_TESTS}test_two_records_of_one_hostname_are_no_word_on_either_d17",
    ),
    TextMutant(
        "D17",
        "that the machine before is heard is a join of the next one of its name",
        "core/observe/scheduled.py",
        "or name in shared or not _is_heard(record, heard):",
        "or name in shared:",
        f"{_TESTS}test_a_word_on_the_machine_before_is_none_on_the_next_one_d17_d7",
    ),
    TextMutant(
        "D17",
        "a word on the machine before is one on the next one of its name",
        "core/observe/scheduled.py",
        "    lives = {**_lives(history), **heard}\n",
        "    lives = _lives(history)\n",
        f"{_TESTS}test_a_word_on_the_machine_before_is_none_on_the_next_one_d17_d7",
    ),
    TextMutant(
        "D16",
        "a node that somebody reserved or drained is ended, as it never joined",
        "core/observe/scheduled.py",
        "    if node.state is BUSY or is_set_aside(node):\n",
        "    if node.state is BUSY:\n",
        f"{_TESTS}test_what_says_nothing_of_its_slurmd_ends_it_never_d17",
    ),
    TextMutant(
        "D17",
        "a scheduler that does not know a node's state says that it is not up",
        "core/observe/scheduled.py",
        "    return node.state is WorkerState.DOWN or not (node.responds or node.suspended)\n",
        "    return True\n",
        f"{_TESTS}test_what_says_nothing_of_its_slurmd_ends_it_never_d17",
    ),
    TextMutant(
        "D2",
        "a node that joined right before its destroy is ended as one that never did",
        "core/execute/destroy.py",
        "    if not is_not_up(told):\n",
        "    if False:\n",
        f"{_TESTS}test_the_scheduler_is_asked_again_right_before_d17_d2",
    ),
    TextMutant(
        "B5",
        "a node that pings, and never joins its scheduler, ends the streak of failed boots",
        "core/safety/boot_loops.py",
        "        if not is_booting(uuid, incarnation, after):\n",
        "        if True:\n",
        "tests/actors/test_boot_loops.py::"
        "test_a_node_that_joins_ends_the_streak_and_its_ping_does_not_b5",
    ),
    TextMutant(
        "B5",
        "a node that was ended as never joined is no failed boot",
        "core/judge/node_view.py",
        "FAILED_BOOTS = frozenset({Reason.BOOT_FAILED, Reason.NOT_JOINED})",
        "FAILED_BOOTS = frozenset({Reason.BOOT_FAILED})",
        "tests/actors/test_boot_loops.py::"
        "test_nodes_that_ping_and_never_join_are_ended_and_rest_like_those_that_never_ping_d17",
    ),
    TextMutant(
        "B5",
        "a node that the cloud ends before it joined its scheduler is no failed boot",
        "core/observe/ended.py",
        "boots = waits_for_first_ping(record) or waits_to_join(record, history)",
        "boots = waits_for_first_ping(record)",
        f"{_TESTS}test_one_that_the_cloud_ends_before_it_joined_has_failed_to_boot_b5",
    ),
)
