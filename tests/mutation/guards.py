"""Guards of two or three clauses, one clause left out, each with the test that must notice it."""

from __future__ import annotations

from tests.mutation.catalog import TextMutant

_INTENTS = "tests/actors/test_intents.py::"
_DUE = "tests/core/execute/test_still_due.py::"
_WRITES = "tests/core/execute/test_record_writes.py::"

_LEASE = "tests/core/safety/test_lease.py::"
_FENCES = "tests/records/test_fences.py::"
_SLOW = "tests/actors/test_slow_creates.py::"

_BEFORE = "tests/core/plan/test_before.py::"
_TAKEN = "tests/actors/test_cloud_notice.py::"

_ADVICE = "tests/core/replay/test_advice.py::"

GUARDS = (
    TextMutant(
        "L6",
        "a node is given up as refused by the cloud, though the lease was lost before it was asked",
        "core/execute/adopt.py",
        "isinstance(error, NotSent | Throttled)",
        "isinstance(error, Throttled)",
        "tests/actors/test_adoption.py::test_a_failure_that_may_pass_is_tried_again[unsent]",
    ),
    TextMutant(
        "O4",
        "what was ordered since the newest decision is shown as decided",
        "actors/daemon/context.py",
        "undecided=waits",
        "undecided=False",
        "tests/actors/test_long_decisions.py::"
        "test_who_has_the_answer_to_an_order_is_not_shown_the_time_before_it",
    ),
    # No shorter window without evidence.
    TextMutant(
        "C3",
        "a shorter window is advised though nothing that it waits for ended in the recording",
        "core/replay/advice.py",
        "basis.seen.count > 0 and one.value >= basis.need",
        "one.value >= basis.need",
        f"{_ADVICE}test_without_a_silence_that_ended_no_shorter_window_is_advised",
    ),
    TextMutant(
        "C3",
        "a shorter window is advised that the longest silence would have outlasted",
        "core/replay/advice.py",
        "basis.seen.count > 0 and one.value >= basis.need",
        "basis.seen.count > 0",
        f"{_ADVICE}test_a_shorter_window_leaves_a_margin_to_the_longest_silence",
    ),
    # What a plan takes over from the plan before forgets one of its causes.
    TextMutant(
        "L4",
        "a node that was busy at the plan before is busy still, however old its word has grown",
        "core/judge/nodes.py",
        "if not oldest < stamp <= newest or heard",
        "if heard",
        f"{_BEFORE}"
        "test_a_word_that_grows_old_between_two_decisions_is_none_however_lately_it_was_seen",
    ),
    TextMutant(
        "L4",
        "a node that was busy at the plan before is busy still, though its shutdown is in flight",
        "core/judge/nodes.py",
        "*(snapshot.node_flights, snapshot.gone,",
        "*(snapshot.gone,",
        f"{_BEFORE}test_what_concerns_a_node_at_work_shows_at_once",
    ),
    TextMutant(
        "L4",
        "a record pairs as at the plan before, though it was claimed anew since",
        "core/observe/pairing.py",
        "node is None or before.record_of.get(node.id) is not record",
        "node is None",
        f"{_BEFORE}test_what_concerns_a_node_at_work_shows_at_once",
    ),
    # A create that the cloud goes on with.
    TextMutant(
        "U6",
        "a claim whose refused create a listing has shown stays until it expires",
        "core/execute/clean.py",
        "        return order.reason is Reason.CREATE_REFUSED\n    return why.reason",
        "        return False\n    return why.reason",
        f"{_SLOW}test_a_size_without_room_in_the_end_is_followed_by_another_within_two_polls",
    ),
    TextMutant(
        "D6",
        "the quota counts the very node that it was refused for",
        "core/execute/state.py",
        " - len(unmade))",
        ")",
        f"{_SLOW}test_a_quota_that_is_told_in_the_end_releases_the_claim_and_counts_no_node_as_coming",
    ),
    TextMutant(
        "D6",
        "a slow create is forgotten over a restart",
        "core/execute/setup.py",
        "                return _asked(state, seen)\n            case Doubtful():",
        "                return Step(doubtful(Creating(state.order, state.record), seen))\n"
        "            case Doubtful():",
        f"{_SLOW}test_a_restart_asks_on_by_what_the_journal_has",
    ),
    # A node at work, or known to live, is hit.
    TextMutant(
        "D12",
        "a word from the future counts as said after demand fell",
        "core/judge/idle.py",
        "if stamp is not None and clock.age(stamp, now) < -CLOCK_STEP_S - clock.error_s:",
        "if False:",
        "tests/core/judge/test_idle.py::"
        "test_a_word_from_the_future_says_not_whether_it_came_before_demand_fell_d12_t1",
    ),
    TextMutant(
        "B5",
        "a node that a late list shows after its end fails to boot once more",
        "core/safety/boot_loops.py",
        "if life is not None and life in loops.counted:",
        "if False:",
        "tests/actors/test_context.py::"
        "test_a_life_that_a_late_list_shows_after_its_end_failed_to_boot_once_b5",
    ),
    TextMutant(
        "D12",
        "a destroy that was passed over is forgotten, and its node gets work again",
        "actors/daemon/intents.py",
        "            yield intent.node, None\n",
        "            continue\n",
        f"{_INTENTS}test_a_destroy_that_was_sent_may_hit_its_node_though_nobody_waits_for_it_d12",
    ),
    TextMutant(
        "D12",
        "a destroy that was refused keeps its node from work",
        "actors/daemon/intents.py",
        "intent.node is not None and not is_refused:",
        "intent.node is not None:",
        f"{_INTENTS}test_a_destroy_that_was_sent_may_hit_its_node_though_nobody_waits_for_it_d12",
    ),
    TextMutant(
        "R4",
        "a destroy of unknown outcome has ended its node",
        "actors/daemon/intents.py",
        "one.outcome == Outcome.GONE.value and intent.node is not None:",
        "intent.node is not None:",
        f"{_INTENTS}test_only_what_is_gone_or_freed_has_ended_r4",
    ),
    TextMutant(
        "T4",
        "a server that nova moves to another host counts as stopped",
        "cloud/openstack/node.py",
        '"MIGRATING": CloudState.RUNNING,',
        '"MIGRATING": CloudState.STOPPED,',
        "tests/cloud/openstack/test_listings.py::test_only_a_deleted_server_is_absent_t4",
    ),
    TextMutant(
        "T4",
        "a domain that libvirt pauses for a snapshot counts as stopped",
        "cloud/libvirt/domain.py",
        '"paused for snapshot": CloudState.RUNNING,',
        '"paused for snapshot": CloudState.STOPPED,',
        "tests/cloud/libvirt/test_adapter.py::test_no_state_of_libvirt_means_that_a_domain_is_gone",
    ),
    TextMutant(
        "U8",
        "a node that is known to live after its clean is marked down in the scheduler",
        "core/plan/errands.py",
        "            and life_of.reported_at is None\n",
        "",
        "tests/core/plan/test_errands.py::"
        "test_a_name_is_not_marked_down_that_may_be_anybodys_by_now_u8_b2",
    ),
    TextMutant(
        "T6",
        "a scheduler's listing from before the clean marks its node down",
        "core/plan/errands.py",
        "min(listing.started_at, records.started_at)",
        "records.started_at",
        "tests/core/plan/test_errands.py::"
        "test_a_scheduler_listing_from_before_the_clean_marks_nothing_t6",
    ),
    TextMutant(
        "D9",
        "nodes that lose their records one by one are no wave until the first has gone",
        "core/judge/nodes.py",
        "since_s > settings.boot_fail_after / 2 and",
        "since_s > settings.boot_fail_after and",
        "tests/core/safety/test_waves.py::"
        "test_nodes_that_lose_their_records_one_by_one_are_a_wave_before_the_first_is_due_d9",
    ),
    TextMutant(
        "D12",
        "what an admin drained is drained by us too, and resumed later",
        "core/plan/orders.py",
        "before is not None or word.is_set_aside or may",
        "before is not None or may",
        "tests/core/execute/test_dispatch.py::"
        "test_what_an_admin_drained_is_not_drained_by_us_too_d12",
    ),
    TextMutant(
        "D11",
        "a kill ends a node without our tag",
        "core/judge/nodes.py",
        "if kill is None or subject.node.tags.pool is None:",
        "if kill is None:",
        "tests/core/judge/test_marked_nodes.py::"
        "test_no_order_of_an_operator_touches_a_node_without_a_tag_d11_o2",
    ),
    TextMutant(
        "D3",
        "a wall clock that is ahead makes a young node gone",
        "core/observe/signs.py",
        "    age_s = min(age_s, clock.age(created_at, now))\n",
        "",
        "tests/core/judge/test_shutdown.py::"
        "test_a_wall_clock_that_is_ahead_makes_no_young_node_gone_d3_t1",
    ),
    TextMutant(
        "D8",
        "the time behind our own fence is the node's silence",
        "core/observe/history.py",
        "            and not record.fenced\n",
        "",
        "tests/core/judge/test_shutdown.py::"
        "test_the_time_behind_our_own_fence_is_no_silence_d8_c12",
    ),
    TextMutant(
        "U10",
        "of two sizes that come the last that min_nodes needs is withdrawn too",
        "core/plan/demand.py",
        "                may_go -= count\n",
        "",
        "tests/core/plan/test_demand.py::test_of_two_sizes_that_come_min_nodes_needs_but_one_u10",
    ),
    TextMutant(
        "L3",
        "our own destroys are a collapse of the scheduler's listing",
        "core/observe/scheduled.py",
        "        and any(node.id not in going for node in history.nodes_by_record"
        ".get(record.uuid, ()))\n",
        "        and history.nodes_by_record.get(record.uuid, ())\n",
        "tests/core/judge/test_scheduled.py::"
        "test_our_own_destroys_are_no_collapse_of_the_schedulers_listing_l3",
    ),
    TextMutant(
        "D3",
        "a node that is known to be gone takes a place until a listing lacks it",
        "core/judge/nodes.py",
        "snapshot.gone.get(node.id, -1.0) >= facts.listed_at or was_ended",
        "was_ended",
        "tests/core/plan/test_plan.py::"
        "test_a_node_that_is_known_to_be_gone_takes_no_place_though_it_is_listed_d3",
    ),
    # The cloud will take the node (D18).
    TextMutant(
        "D18",
        "a busy node that its cloud will take is judged as any busy one",
        "core/judge/nodes.py",
        "node.problems or record.problems or record.notice:",
        "node.problems or record.problems:",
        f"{_TAKEN}test_a_busy_node_keeps_its_job_is_replaced_and_goes_once_the_job_is_done",
    ),
    TextMutant(
        "D18",
        "a node that its cloud will take is ended though it works",
        "core/judge/nodes.py",
        "WorkerState.BUSY: Verdict(Kind.KEEP, waits,",
        "WorkerState.BUSY: Verdict(Kind.SHUTDOWN, goes,",
        "tests/core/judge/test_cloud_notice.py::"
        "test_one_that_may_be_busy_is_left_to_its_job_until_the_cloud_ends_it[busy]",
    ),
    TextMutant(
        "D18",
        "a node that its cloud will take counts as one that stays",
        "core/judge/nodes.py",
        "            seen.counts = seen.surplus_if_idle = False\n        return seen\n\n"
        "    def _checked(",
        "        return seen\n\n    def _checked(",
        "tests/core/judge/test_cloud_notice.py::"
        "test_a_hold_is_stronger_and_it_is_no_supply_all_the_same",
    ),
    TextMutant(
        "D18",
        "a notice that was taken back ends its node all the same",
        "core/plan/destroy.py",
        "off = _not_taken(order, record) if is_noticed else",
        "off = None if is_noticed else",
        "tests/core/judge/test_cloud_notice.py::"
        "test_right_before_the_destroy_its_notice_and_its_own_word_are_read_again_d2",
    ),
    TextMutant(
        "D18",
        "a ping of a node that could read nothing takes its notice back",
        "records/pings.py",
        "    if said.why is None:\n        return\n",
        "",
        "tests/contract/test_notice_contract.py::"
        "test_it_stands_until_a_ping_says_otherwise[sqlite]",
    ),
    TextMutant(
        "D18",
        "the next life of a record has the notice of the one before",
        "records/wire.py",
        "WORDS = (*STATE, NOTICE, NOTICE_AT)",
        "WORDS = STATE",
        "tests/contract/test_notice_contract.py::"
        "test_the_next_life_of_a_record_has_no_notice[sqlite]",
    ),
    TextMutant(
        "D11",
        "a node without our tag is told to drain because its cloud will take it",
        "core/judge/nodes.py",
        "return record is not None and record.notice is not None and node.tags.pool is not None",
        "return record is not None and record.notice is not None",
        "tests/core/judge/test_cloud_notice.py::"
        "test_an_untagged_node_is_never_drained_nor_destroyed_d11",
    ),
    # What an order waits for has changed.
    TextMutant(
        "C9",
        "an order to drain goes out over a hold",
        "core/execute/drain.py",
        "record is None or record.held or not snapshot.holds",
        "record is None or not snapshot.holds",
        f"{_DUE}test_an_order_to_drain_or_resume_stands_until_anything_forbids_it_d12_l6_c9",
    ),
    TextMutant(
        "C9",
        "a scheduler is told to drain a node on hold",
        "core/execute/drain.py",
        "record is None or record.held or not snapshot.holds.isdisjoint((uuid, order.node_id)):",
        "record is None or record.held:",
        f"{_DUE}test_an_order_to_the_scheduler_stands_until_anything_forbids_it_d12_l6_c9",
    ),
    TextMutant(
        "D12",
        "a scheduler is told to drain the host of another life",
        "core/execute/drain.py",
        "(record.incarnation, record.hostname) != (order.record.incarnation, order.hostname)",
        "record.hostname != order.hostname",
        f"{_DUE}test_an_order_to_the_scheduler_stands_until_anything_forbids_it_d12_l6_c9",
    ),
    TextMutant(
        "D12",
        "a drain goes out that a late order may undo",
        "core/execute/drain.py",
        "    return not (order.on and may_be_undone(record, seen.snapshot))\n",
        "    return True\n",
        f"{_DUE}test_no_drain_goes_out_while_an_unclear_order_may_undo_it_d12",
    ),
    TextMutant(
        "C9",
        "a hold that was written since the plan does not stop a destroy",
        "core/plan/destroy.py",
        "    if any(one is not None and one.held for one in (record, listed)):\n",
        "    if False:\n",
        f"{_DUE}test_a_hold_that_the_record_or_the_listing_shows_stops_a_destroy_c9",
    ),
    TextMutant(
        "D7",
        "an unpaired node goes though its record was pinged since",
        "core/plan/destroy.py",
        "    if record.instance_id == node_id and _was_heard(record, snapshot):\n",
        "    if False:\n",
        f"{_DUE}test_an_unpaired_node_goes_unless_its_record_is_its_own_or_was_pinged_d2_d7",
    ),
    TextMutant(
        "D2",
        "an operator's drain is as good as a kill",
        "core/plan/destroy.py",
        "    if order.reason is Reason.KILLED or not stands:\n",
        "    if not stands:\n",
        "tests/core/execute/test_still_due.py::test_a_drain_alone_is_no_kill_o2",
    ),
    TextMutant(
        "D2",
        "a node that failed to boot goes though its record changed",
        "core/plan/destroy.py",
        "    return order.reason is Reason.NODE_DOWN and state is WorkerState.DOWN\n",
        "    return state is WorkerState.DOWN\n",
        f"{_DUE}test_any_change_of_its_record_is_a_sign_of_life_of_a_bad_node_d2",
    ),
    TextMutant(
        "C11",
        "a ping at the same version does not stop a clean",
        "core/execute/pre_write_check.py",
        "    if _was_pinged_since(order, record):\n",
        "    if False:\n",
        "tests/core/execute/test_last_look.py::"
        "test_a_record_that_changed_since_its_plan_is_kept_c11",
    ),
    # A live record is freed or used.
    TextMutant(
        "C12",
        "after a restart nobody knows that a late write frees",
        "core/execute/writes.py",
        "            if one.clean_at is not None:\n",
        "            if False:\n",
        f"{_WRITES}test_what_a_former_run_wrote_may_come_late_to_this_one_c12_u2",
    ),
    TextMutant(
        "B3",
        "a fence that needs no lift says that writes work",
        "core/execute/writes.py",
        "    elif not (isinstance(effect, LiftFence) and answer is None):\n",
        "    else:\n",
        "tests/actors/test_writes.py::"
        "test_a_fence_that_needs_no_lift_does_not_say_that_writes_work",
    ),
    TextMutant(
        "B3",
        "a conflict that was read before a write says that writes work",
        "core/execute/writes.py",
        "return (writes, breaker) if error.unsent else _after_success(writes, breaker)",
        "return _after_success(writes, breaker)",
        f"{_WRITES}test_only_an_answer_to_a_write_says_that_writes_work_b3",
    ),
    TextMutant(
        "U2",
        "a record that somebody wrote since is our own clean still",
        "core/execute/writes.py",
        "            if at >= listing.started_at or versions.get(uuid) == version\n",
        "",
        f"{_WRITES}test_a_record_is_our_own_clean_until_somebody_writes_it_u2",
    ),
    TextMutant(
        "C12",
        "a clean whose order can't be read frees nothing",
        "actors/daemon/intents.py",
        "                fenced = True\n",
        "                fenced = False\n",
        f"{_INTENTS}test_what_a_former_run_may_be_writing_still_and_whether_that_frees_c12",
    ),
    TextMutant(
        "P6",
        "a denial from hours ago goes on",
        "core/observe/unlisted.py",
        "        if now - answer.said_at > settings.poll_stale_after:\n",
        "        if False:\n",
        "tests/core/observe/test_unlisted.py::"
        "test_denials_that_nobody_repeats_any_more_are_no_unbroken_ones_p6_a1",
    ),
    TextMutant(
        "C2",
        "what the scheduler hears since the plan does not stop a clean",
        "core/execute/pre_write_check.py",
        "if is_up_in_scheduler(record, snapshot, settings) and not",
        "if False and not",
        "tests/core/execute/test_last_look.py::"
        "test_a_node_that_the_scheduler_hears_since_the_plan_keeps_its_record_c2",
    ),
    TextMutant(
        "C10",
        "what was freed since the listing does not count for the cap",
        "core/plan/due.py",
        "return snapshot.cleaned_lately + _under_way(snapshot)",
        "return _under_way(snapshot)",
        "tests/core/plan/test_plan.py::test_what_was_freed_since_the_listing_uses_up_the_cap_c10",
    ),
    TextMutant(
        "U8",
        "a freed life is forgotten after ten minutes",
        "records/freed.py",
        "KEPT_S = 7 * 86400",
        "KEPT_S = 600",
        "tests/contract/test_restore_contract.py::test_a_freed_life_is_known_for_days_u8[sqlite]",
    ),
    TextMutant(
        "D12",
        "a drained node that is wanted again stays drained though no destroy may hit it",
        "core/judge/idle.py",
        "is_ours = record.uuid in snapshot.drain_orders\n"
        "    return node_id in snapshot.late_destroys or "
        "(snapshot.unknown_destroys and not is_ours)",
        "is_ours = record.uuid in snapshot.drain_orders\n"
        "    return node_id in snapshot.late_destroys or not is_ours",
        "tests/core/judge/test_idle.py::"
        "test_a_drained_node_stays_so_only_while_a_destroy_may_hit_it_d12[nothing-may-hit-it]",
    ),
    TextMutant(
        "P6",
        "the absence of a record's former life counts for its new node",
        "core/observe/unlisted.py",
        "        if absence is None or absence.incarnation != record.incarnation:\n"
        "            continue\n",
        "        if absence is None:\n            continue\n",
        "tests/core/observe/test_unlisted.py::"
        "test_the_absence_of_a_former_life_is_not_that_of_the_next_p6",
    ),
    # Data, secrets, operators.
    TextMutant(
        "O1",
        "an order on a node that only the next listing shows is told to stand, and does nothing",
        "actors/daemon/decisions.py",
        "        self._operators.questions.before_plan()\n",
        "",
        "tests/actors/test_operators.py::"
        "test_an_order_on_a_node_that_only_the_next_listing_shows_is_of_that_node[drain]",
    ),
    TextMutant(
        "O1",
        "an order on a node that only an answer by id shows is told to stand, and does nothing",
        "actors/daemon/command_answers.py",
        "node = node_shown(self._context.history, node_id)\n",
        "node = self._context.history.present.get(node_id)\n",
        "tests/actors/test_operators.py::"
        "test_an_order_on_a_node_that_only_an_answer_shows_is_of_that_node[drain]",
    ),
    TextMutant(
        "O1",
        "a drain that takes the place of an unlisted node's cordon does nothing",
        "actors/daemon/operators.py",
        "self._questions.mark(said, node_id, replaced=earlier)",
        "self._questions.mark(said, node_id)",
        "tests/actors/test_operators.py::"
        "test_an_order_in_the_place_of_another_while_no_listing_shows_the_node_is_of_that_node",
    ),
    TextMutant(
        "O5",
        "an order is of the life that an older answer shows",
        "core/observe/queries.py",
        "key=lambda answer: answer.said_at, reverse=True",
        "key=lambda answer: answer.said_at",
        "tests/core/observe/test_queries.py::test_a_newer_answer_goes_before_an_older_one",
    ),
    TextMutant(
        "U8",
        "above its limit the journal drops all decisions but the newest segment",
        "journal/sqlite.py",
        "return (pages - free) * size",
        "return pages * size",
        "tests/journal/test_retention.py::test_above_its_limit_only_as_many_decisions_go_as_must",
    ),
    TextMutant(
        "D4",
        "what a node pins is released before its absence has lasted for `settle`",
        "core/plan/leftovers.py",
        "if not absence.has_settled(settings):",
        "if absence.listings < settings.absent_listings:",
        "tests/core/plan/test_leftovers.py::"
        "test_an_absence_that_has_settled_releases_what_a_node_pins_d4_c5",
    ),
    TextMutant(
        "D4",
        "nobody asks for the node whose record is not free before what it pins is released",
        "core/plan/leftovers.py",
        "if node_id in claimed and not is_fresh else None",
        "if False else None",
        "tests/core/plan/test_leftovers.py::"
        "test_a_node_whose_record_is_not_free_is_asked_for_before_what_it_pins_is_released_d4_d13",
    ),
    TextMutant(
        "D4",
        "a node that the cloud shows by its id, and no listing does, loses what it pins",
        "core/plan/leftovers.py",
        "any(not one.is_absent for one in answer.nodes)",
        "not answer.nodes",
        "tests/core/plan/test_leftovers.py::"
        "test_a_node_that_no_listing_shows_and_the_cloud_does_keeps_what_it_pins_d13[it-lives]",
    ),
    TextMutant(
        "D4",
        "a node in an incomplete listing is absent all the same",
        "core/plan/leftovers.py",
        "history.present.keys() | {node.id for node in history.partial}",
        "history.present.keys()",
        "tests/core/plan/test_leftovers.py::"
        "test_a_node_that_is_seen_again_is_absent_no_more_c5[False]",
    ),
    TextMutant(
        "C5",
        "a gap between listings that a reload makes too long counts as absence",
        "core/observe/listing_history.py",
        "if self.gap_s > settings.poll_stale_after:",
        "if False:",
        "tests/core/plan/test_leftovers.py::"
        "test_a_gap_that_a_reload_makes_too_long_counts_no_more_c5_s6",
    ),
    TextMutant(
        "D4",
        "a secret in a cloud's error stays in the ledger of leftovers",
        "journal/durable.py",
        "redact.text(entry.last_error)",
        "entry.last_error",
        "tests/journal/test_contract.py::test_no_secret_of_a_clouds_error_stays_in_the_ledger",
    ),
    TextMutant(
        "P1a",
        "a ping secret has 16 bits",
        "records/rows.py",
        "secrets.token_urlsafe(24)",
        "secrets.token_urlsafe(2)",
        "tests/records/test_wire.py::test_a_ping_secret_can_not_be_guessed",
    ),
    TextMutant(
        "O5",
        "an operator is told that a node is cordoned whose destroy is sent",
        "actors/daemon/operators.py",
        "        if kept and self._context.flights.is_written(Key(Action.SHUTDOWN, node_id)):\n"
        "            return commands.too_late(named)\n        self._answers.check_writes",
        "        self._answers.check_writes",
        "tests/actors/test_operators.py::test_a_node_whose_destroy_is_sent_is_not_cordoned",
    ),
    TextMutant(
        "U1",
        "the end of one of two nodes of a create is the end of both",
        "core/observe/ended.py",
        " or _lives_on(record, history)",
        "",
        "tests/core/observe/test_ended.py::"
        "test_one_whose_twin_lives_has_not_ended_its_life_and_the_twin_counts_off_the_list_u1",
    ),
    TextMutant(
        "U14",
        "what waits for the next machine of a name is queued again at the end of the one before",
        "schedulers/slurm/power.py",
        "return node.wanted and had_joined",
        "return False",
        "tests/schedulers/test_slurm_power.py::"
        "test_what_waits_for_the_machine_after_one_that_had_joined_is_left_alone_u14",
    ),
    TextMutant(
        "U14",
        "an order to mark a name down does not say whether the machine had joined",
        "core/execute/shutdown.py",
        "had_joined=life is not None and not life.waits,",
        "had_joined=False,",
        "tests/core/execute/test_mark_down.py::"
        "test_what_the_scheduler_waits_for_is_the_next_machine_of_one_that_had_joined_u14",
    ),
    TextMutant(
        "D9",
        "a silent node that comes back and says down is of the wave in which it fell silent alone",
        "core/observe/nodes_since.py",
        " or (says_down and not before.says_down)",
        "",
        "tests/core/safety/test_waves.py::"
        "test_a_silent_node_that_comes_back_and_says_down_turns_with_those_who_say_so_then_d9",
    ),
    TextMutant(
        "B3",
        "a journal that is read late forgets the breaker that opened meanwhile",
        "journal/kept.py",
        "own or kept",
        "kept",
        "tests/actors/test_recovery.py::"
        "test_a_breaker_that_opened_before_the_journal_could_be_read_outlives_the_run_b3",
    ),
    TextMutant(
        "U13",
        "throttling leaves as many creates at once as before",
        "core/plan/availability.py",
        "_at_once(limits, settings) // 2)",
        "_at_once(limits, settings))",
        "tests/core/plan/test_throttling.py::"
        "test_throttling_halves_how_many_run_and_leaves_one_u13",
    ),
    TextMutant(
        "U13",
        "each of sixteen refusals of one moment halves the number again",
        "core/plan/availability.py",
        "if at < limits.throttled_until:",
        "if False:",
        "tests/core/plan/test_throttling.py::"
        "test_what_was_sent_before_it_was_throttled_halves_nothing_again_u13",
    ),
    TextMutant(
        "U13",
        "free workers are reason enough to call the cloud",
        "actors/workers/worker_pool.py",
        " or (order.paced and room <= 0)",
        "",
        "tests/actors/test_worker_pool.py::test_no_more_run_than_may_call_the_cloud_u13",
    ),
    TextMutant(
        "U13",
        "a set-up that has begun calls a cloud that wants fewer calls",
        "actors/workers/worker_pool.py",
        "if paced and self._running > self.at_once():",
        "if False:",
        "tests/actors/test_worker_pool.py::"
        "test_a_step_for_which_too_many_run_waits_in_its_own_place_u13",
    ),
    TextMutant(
        "C12",
        "an item that our own clean changed is told as changed by somebody else",
        "core/operate/backlog.py",
        "    if is_touched(item.id, seen.snapshot):",
        "    if False:",
        "tests/core/operate/test_backlog.py::"
        "test_a_listing_from_before_our_own_clean_ended_changes_no_item_c12",
    ),
    TextMutant(
        "U13",
        "all cleans wait for one worker",
        "app/wiring.py",
        "tuple(RecordCleanerActor.start(context) for _ in range(settings.max_creates))",
        "(RecordCleanerActor.start(context),)",
        "tests/actors/test_many_cleans.py::"
        "test_sixteen_cleans_run_at_once_and_the_daemon_answers_meanwhile_u13",
    ),
    TextMutant(
        "U13",
        "a clean's first look calls a cloud that wants fewer calls",
        "core/execute/effects.py",
        "return effect.not_after is not None",
        "return False",
        "tests/actors/test_many_cleans.py::"
        "test_a_clean_that_waits_for_a_worker_does_not_call_a_cloud_that_wants_fewer_calls_d6",
    ),
    TextMutant(
        "C11",
        "a void order is looked at before it is dropped",
        "actors/workers/workers.py",
        "if effect.not_after is not None:",
        "if False:",
        "tests/actors/test_many_cleans.py::"
        "test_an_order_that_waited_until_it_was_void_costs_no_request_c11",
    ),
    TextMutant(
        "C11",
        "more cleans are ordered than can be done while their orders stand",
        "core/plan/due.py",
        "if capped <= in_time else",
        "if True else",
        "tests/core/judge/test_records.py::"
        "test_no_more_cleans_are_under_way_than_the_workers_do_while_an_order_stands_c11",
    ),
    TextMutant(
        "C20",
        "a clean whose order waited too long is forgotten, though its node is gone",
        "core/execute/clean.py",
        "(Reason.DENIED_TOO_EARLY, Reason.ORDER_EXPIRED, Reason.STOPPING)",
        "(Reason.DENIED_TOO_EARLY, Reason.STOPPING)",
        "tests/core/execute/explored/test_clean.py::"
        "test_no_living_nodes_record_is_freed_and_no_fence_is_left_whatever_happens",
    ),
    TextMutant(
        "U13",
        "what waits for a worker when the quota is met is tried in vain",
        "core/execute/setup.py",
        "if limits.quota is not None and planned_at <= limits.quota_at:",
        "if False:",
        "tests/actors/test_many_creates.py::"
        "test_a_quota_is_met_by_few_creates_in_vain_then_by_a_probe_u13",
    ),
    TextMutant(
        "U13",
        "a throttled create gives its claim up",
        "core/execute/setup.py",
        "        case Throttled() if not state.tries:\n",
        "        case Throttled() if False:\n",
        "tests/actors/test_many_creates.py::"
        "test_a_throttled_create_keeps_its_claim_and_is_sent_again_u13",
    ),
    TextMutant(
        "O5",
        "a cordon ends with the tags of its node",
        "core/model/annotations.py",
        "(self.kept and is_unsaid)",
        "False",
        "tests/core/judge/test_marked_nodes.py::"
        "test_o5_a_cordon_stays_on_a_node_whose_tags_were_taken_and_a_drain_does_not",
    ),
    TextMutant(
        "O5",
        "a cordon that was set after the order, and after the tags were taken, stops no destroy",
        "core/plan/destroy.py",
        "listed is not None and mark.is_on(listed.tags.incarnation)",
        "False",
        "tests/core/execute/test_still_due.py::"
        "test_a_cordon_set_on_the_next_node_of_an_id_stops_the_destroy_of_the_one_before_o5",
    ),
    TextMutant(
        "O5",
        "nor is an operator told so of a drained one",
        "actors/daemon/operators.py",
        "earlier=earlier)\n        if kept and self._context.flights.is_written(",
        "earlier=earlier)\n        if False and self._context.flights.is_written(",
        "tests/actors/test_operators.py::test_a_node_whose_destroy_is_sent_is_not_cordoned",
    ),
    TextMutant(
        "O7",
        "a set-up that waits for a worker is begun in a parked pool",
        "core/execute/setup.py",
        "    if snapshot.parked is not None:\n",
        "    if False:\n",
        "tests/core/plan/test_parked.py::test_o7_a_set_up_that_waits_for_a_worker_is_not_begun",
    ),
    TextMutant(
        "O7",
        "a node goes for a parking that was ended",
        "core/plan/destroy.py",
        "    if snapshot.parked is not None:\n        return None\n",
        "    if True:\n        return None\n",
        "tests/core/plan/test_parked.py::test_o7_what_was_to_go_stays_once_the_pool_is_unparked",
    ),
    TextMutant(
        "O7",
        "a busy node that was busy before is not told to take no more work",
        "core/judge/nodes.py",
        "before if snapshot.parked is None else NOTHING_BEFORE",
        "before",
        "tests/core/plan/test_parked.py::"
        "test_o7_a_node_is_told_to_take_no_more_work_and_after_unpark_to_take_some",
    ),
    # Two managers act for one pool.
    TextMutant(
        "L6",
        "an order is sent though the lease was lost since it was made",
        "actors/net.py",
        "        if not may_send():",
        "        if False:",
        "tests/actors/test_net.py::"
        "test_an_order_is_sent_only_while_the_lease_is_held_and_a_question_always",
    ),
    TextMutant(
        "L6",
        "a lease is taken once it has ended by the database's clock",
        "core/safety/lease.py",
        "now - seen.since >= seen.row.duration",
        "seen.row.left_s <= 0",
        f"{_LEASE}test_a_lease_is_taken_only_after_it_was_watched_for_its_whole_time",
    ),
    TextMutant(
        "L6",
        "a lease is taken although it was renewed since the last look",
        "lease/keeper.py",
        "sa.and_(leases.c.token == token, leases.c.renewals == renewals)",
        "leases.c.token == token",
        "tests/lease/test_table.py::"
        "test_one_that_nobody_renewed_is_taken_and_its_former_holder_renews_no_more",
    ),
    TextMutant(
        "L6",
        "the holder acts to the last moment of its lease",
        "core/safety/lease.py",
        "duration * (1 - RESERVE)",
        "duration",
        "tests/lease/test_keeper.py::test_an_answer_that_comes_late_counts_from_the_question",
    ),
    TextMutant(
        "L6",
        "a new holder does not wait for the calls of the one before",
        "core/safety/lease.py",
        "taken_at if was_given_back else taken_at + call_s",
        "taken_at",
        f"{_LEASE}test_a_new_holder_waits_for_the_calls_of_one_that_did_not_give_back",
    ),
    TextMutant(
        "L6",
        "a term that another manager has ended goes on to its time",
        "lease/keeper.py",
        "not self._is_over and ",
        "",
        "tests/lease/test_keeper.py::"
        "test_a_term_that_another_manager_has_ended_is_over_though_its_time_runs_on",
    ),
    TextMutant(
        "L6",
        "a renewal counts from its answer",
        "lease/keeper.py",
        "        sent_at = self._clock.boottime()\n        token = self._leases.take("
        "row, self.holder, self._duration)\n",
        "        token = self._leases.take(row, self.holder, self._duration)\n"
        "        sent_at = self._clock.boottime()\n",
        "tests/lease/test_keeper.py::test_an_answer_that_comes_late_counts_from_the_question",
    ),
    TextMutant(
        "L6",
        "a database that was away is trusted to have every renewal",
        "lease/keeper.py",
        "            self._seen = None\n            if self._last_logged",
        "            if self._last_logged",
        "tests/lease/test_keeper.py::test_a_database_that_comes_back_is_watched_anew",
    ),
    TextMutant(
        "L6",
        "a database takes the write of a former holder",
        "sql/fence.py",
        "row is None or (row.token, row.holder) != (self.token, self.holder)",
        "row is None",
        f"{_FENCES}test_every_write_of_a_former_holder_is_refused",
    ),
    TextMutant(
        "L6",
        "a former holder raises its token again",
        "sql/fence.py",
        "                where=sa.or_(fences.c.token < self.token, is_ours),\n",
        "",
        f"{_FENCES}test_a_former_holder_raises_nothing_again",
    ),
    TextMutant(
        "L6",
        "a new holder lists while a write of the former one is under way",
        "sql/fence.py",
        "known.with_for_update(read=True)",
        "known",
        f"{_FENCES}test_a_write_that_is_under_way_ends_before_the_token_is_raised",
    ),
    TextMutant(
        "L5",
        "a registry's file that was replaced under a running daemon is another store's answers",
        "sql/database.py",
        "        if _file_at(path) != self._opened:",
        "        if False:",
        "tests/records/test_database.py::"
        "test_a_file_that_is_not_the_opened_one_any_more_is_a_failure_until_it_is_back",
    ),
    TextMutant(
        "L6",
        "a new holder lists before it raises its token",
        "sql/database.py",
        "        self._raise_fence()\n        self._require_same_file()\n",
        "        self._require_same_file()\n",
        f"{_FENCES}test_a_new_holder_raises_its_token_before_it_lists",
    ),
)
