from nodemanager.core.model import Job, WorkerState
from nodemanager.core.whatif import weigh
from nodemanager.journal.reading import outline
from nodemanager.journal.sqlite import SqliteJournal
from nodemanager.journal.sweep import replay
from tests.actors.conftest import *
from tests.fakes import FakeCloud, FakeStore


def test_try(make_rig, tmp_path, clock):
    path = tmp_path / "j.db"
    j = SqliteJournal(path, pool="pool", clock=clock)
    rig = make_rig(
        cloud=FakeCloud(clock),
        store=FakeStore(clock, slot_count=8) if False else FakeStore(clock),
        journal=j,
        node_stale_after=3600,
        min_nodes=0,
        max_nodes=10,
        backlog="clean",
        poll_time=60,
    )
    rig.fleet.state = WorkerState.BUSY
    rig.jobs = (Job("j", count=1),)
    print(rig.store.slots())
    ms = [rig.fleet.add_node(age=36000) for _ in range(8)]
    rig.start()
    rig.turn(600)
    for m, _ in ms[:3]:
        rig.cloud.vanish(m.node.id)
        rig.turn(300)
    nap = ms[4][0]
    rig.fleet.silent.add(nap.node.id)
    nap.listed = False
    # hung but listed
    hung = ms[5][0]
    rig.fleet.silent.add(hung.node.id)
    rig.turn(2400)
    nap.listed = True
    rig.fleet.silent.discard(nap.node.id)
    rig.turn(3600 * 3)
    print(
        [
            (l["record"], l["reason"], l["ts"] if "ts" in l else "")
            for l in rig.lines("record.cleaned")
        ]
    )
    print(
        [
            (l["event"], l.get("node"), l.get("reason"))
            for l in rig.out.fields
            if l["event"].startswith(
                ("node.shutdown", "node.gone", "breaker", "node.setup", "node.created")
            )
        ]
    )
    o = outline(path)
    vals = [300.0, 900.0, 1800.0, 2700.0, 3600.0, 5400.0, 7200.0, 14400.0]
    r = replay(
        path,
        o,
        [{"node_stale_after": v, "poll_stale_after": min(600.0, v / 2)} for v in vals],
        jobs=1,
    )
    print(o.decisions, o.acts, o.poll_s, r.differing)
    print(r.recorded.ends.values())
    print(r.recorded.destroyed, r.recorded.breaker_opened, r.recorded.hits, r.recorded.diverged)
    for v, x in zip(vals, r.others):
        b = weigh(r.recorded, x, r.walls)
        print(
            v,
            b.cleans,
            b.earlier,
            b.later,
            b.never,
            round(b.slot_s),
            b.boots,
            b.boots_lost,
            round(b.boot_wait_s),
            len(b.hits),
            b.spared,
            dict(x.destroyed),
            x.breaker_opened,
        )
        for m in b.moves:
            print("   ", m.life.record[-4:], m.by, m.reason, m.before, m.after, m.gain_s)
        for h in b.hits:
            print("   HIT", h)
