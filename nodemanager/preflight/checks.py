"""The checks of `nodemanager check-cloud`, in order, and how each is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from nodemanager.app import adapters
from nodemanager.app.from_config import sizes_of
from nodemanager.cloud.api import CloudDriver
from nodemanager.cloud.checks import Check, CheckStatus, Found, Wanted
from nodemanager.config import Config
from nodemanager.config.sections import SizeSection
from nodemanager.core.model.world import CloudNode, Size
from nodemanager.core.observe.pools import preflight_of
from nodemanager.errors import CloudError, ConfigError, NodeManagerError
from nodemanager.lib.clock import Clock
from nodemanager.lib.near import did_you_mean
from nodemanager.preflight import ping_url


@dataclass(frozen=True)
class CheckResult:
    """One answered check; `took_s` in seconds."""

    name: str
    found: Found
    took_s: float


UNASKED = CheckResult(
    "all else of the cloud", Found("the credentials did not work", CheckStatus.NOT_ASKED), 0.0
)


def ask_all(config: Config, cloud: CloudDriver, clock: Clock) -> Iterator[CheckResult]:
    """The answers, one by one. Nothing is created, written or changed."""
    account = ask(_credentials(cloud), clock)
    yield account
    if account.found.mark is CheckStatus.FINE:
        for check in _of_cloud(config, cloud, clock):
            yield ask(check, clock)
    else:
        yield UNASKED
    for check in ping_url.checks(config):
        yield ask(check, clock)


def ask(check: Check, clock: Clock) -> CheckResult:
    """The answer to one check; an error is a failure with the check's advice."""
    began = clock.boottime()
    try:
        found = check.ask()
    except NodeManagerError as error:
        text = " ".join(str(error).split())
        found = Found(text.removeprefix(f"{check.name}: "), CheckStatus.FAILED, check.to_do)
    return CheckResult(check.name, found, clock.boottime() - began)


def known_sizes(config: Config, cloud: CloudDriver) -> tuple[Size, ...]:
    """The sizes of the file that can be booted; wrong ones are left out."""
    if not config.sizes:
        return tuple(cloud.list_sizes())
    sizes: list[Size] = []
    for one in config.sizes:
        try:
            sizes += sizes_of(replace(config, sizes=(one,)), cloud)
        except ConfigError:
            continue
    return tuple(sizes)


def cheapness(size: Size) -> tuple[bool, float]:
    """Sorts sizes as the daemon boots them: those of unknown price come last (S4)."""
    return not size.price, size.price or 0.0


def _credentials(cloud: CloudDriver) -> Check:
    return Check(
        "credentials",
        lambda: Found(cloud.account()),
        "correct [Cloud Credentials]: keys, region, endpoint",
    )


def _of_cloud(config: Config, cloud: CloudDriver, clock: Clock) -> Iterator[Check]:
    listed: list[CloudNode] = []
    yield Check("listing", partial(_listing, config, cloud, listed), "see its message")
    yield Check("tag filter", partial(_tag_filter, config, listed))
    yield Check("image", lambda: _image(config, cloud), "correct the image in [Cloud Create]")
    try:
        sizes = cloud.list_sizes()
    except CloudError as error:
        yield Check("sizes", _raises(error))
    else:
        yield from _sizes(config, cloud, sizes)
    daemon = config.daemon
    ours = tuple(one.id for one in _alive(listed, daemon.pool))
    sizes = _wanted_sizes(config, cloud)
    yield from cloud.preflight(Wanted(daemon.pool, sizes, ours))
    yield Check("earlier pre-flight", partial(_left, config, clock))


def _wanted_sizes(config: Config, cloud: CloudDriver) -> tuple[Size, ...]:
    """The sizes to ask the cloud about; none where it can't list what the file leaves open."""
    try:
        known = known_sizes(config, cloud)
    except CloudError:
        return ()
    # Without [Size] sections any may be booted; asking for the cheapest is enough.
    return known if config.sizes else tuple(sorted(known, key=cheapness)[:1])


def _raises(error: NodeManagerError) -> Callable[[], Found]:
    def ask() -> Found:
        raise error

    return ask


def _listing(config: Config, cloud: CloudDriver, listed: list[CloudNode]) -> Found:
    answer = cloud.list_nodes()
    if not answer.complete:
        return Found(f"incomplete: {'; '.join(answer.problems)}", CheckStatus.FAILED)
    listed += answer.items
    pool = config.daemon.pool
    return Found(f"complete; pool {pool} has {len(_alive(answer.items, pool))} nodes")


def _alive(nodes: Sequence[CloudNode], pool: str) -> list[CloudNode]:
    """Those of the pool that are not gone."""
    return [one for one in nodes if one.tags.pool == pool and not one.is_absent]


def _tag_filter(config: Config, listed: Sequence[CloudNode]) -> Found:
    """What `[Cloud List]` finds beside the pool's own nodes (D11)."""
    if not config.cloud_list:
        return Found("[Cloud List] is empty: only nodes with the pool's tag are managed")
    alive = [one for one in listed if one.managed and not one.is_absent]
    others = [one for one in alive if one.tags.pool not in (None, config.daemon.pool)]
    bare = [one for one in alive if one.tags.pool is None]
    text = f"[Cloud List] finds {len(bare)} nodes of no pool and {len(others)} of other pools"
    if not bare:
        return Found(text)
    return Found(
        f"{text}; those of no pool count against max_nodes and are never ended",
        CheckStatus.WARNING,
        "narrow [Cloud List] if they are not the cluster's",
    )


def _image(config: Config, cloud: CloudDriver) -> Found:
    cloud.check_image()
    given = config.cloud_create.get("image_id") or config.cloud_create.get("image")
    if not given:
        return Found("the cloud has no images")
    try:
        exact = cloud.image()
    except CloudError:
        # A role may lack the right to ask and still allow booting from it.
        exact = None
    meant = f" means {exact}" if exact not in (None, given) else ""
    return Found(f"{given}{meant}: nothing speaks against it")


def _sizes(config: Config, cloud: CloudDriver, sizes: Sequence[Size]) -> Iterator[Check]:
    if cloud.sizes_from_file:
        yield Check("sizes", lambda: Found(f"the file describes {len(sizes_of(config, cloud))}"))
    elif not config.sizes:
        text = f"no [Size] section: any of the cloud's {len(sizes)} sizes may be booted"
        advice = "name those that you want to pay for, one [Size NAME] each"
        yield Check("sizes", lambda: Found(text, CheckStatus.WARNING, advice))
    # Elsewhere the list is the adapter's own; the cloud's word on each size comes later.
    lister = "the cloud lists" if cloud.sizes_from_file else "this version knows"
    for one in config.sizes:
        any_size = cloud.makes_any_size and one.stands_alone
        yield Check(f"size {one.name}", partial(_size, config, one, sizes, any_size, lister))


def _size(
    config: Config, wanted: SizeSection, sizes: Sequence[Size], any_size: bool, lister: str
) -> Found:
    """Whether the size is among `sizes`; `any_size` says that the cloud boots what the file
    describes, and `lister` whose list it is."""
    found = next((one for one in sizes if one.instance_type == wanted.cloud_id), None)
    if found is None and any_size:
        found = Size(wanted.name, wanted.cloud_id, wanted.cores or 1, wanted.ram_mb or 0)
    if found is None:
        hint = did_you_mean(wanted.cloud_id, [one.instance_type for one in sizes])
        text = f"{lister} no {wanted.cloud_id}{hint}"
        if not wanted.stands_alone:
            return Found(text, CheckStatus.FAILED, "correct it, or give cores, ram and price")
        return Found(
            f"{text}; as the file describes it", CheckStatus.WARNING, "check that the cloud has it"
        )
    price = wanted.price if wanted.price is not None else found.price
    shown = f"{wanted.cores or found.cores} cores, {wanted.ram_mb or found.ram_mb} MB"
    if not price and config.daemon.max_total_price:
        return Found(
            f"{shown}, price unknown: max_total_price keeps it from being booted (S4)",
            CheckStatus.FAILED,
            f"set [Size {wanted.name}] price",
        )
    return Found(f"{shown}, {f'{price:g} an hour' if price else 'price unknown'}")


def _left(config: Config, clock: Clock) -> Found:
    """Nodes that an interrupted `--boot` left behind, by the tag of the pre-flight's own pool."""
    pool = preflight_of(config.daemon.pool)
    cloud = adapters.build_cloud(replace(config, daemon=replace(config.daemon, pool=pool)), clock)
    try:
        nodes = cloud.list_nodes().items
    finally:
        cloud.close()
    left = [one.id for one in _alive(nodes, pool)]
    if not left:
        return Found("nothing is left of one")
    return Found(
        f"still there: {', '.join(left)}",
        CheckStatus.WARNING,
        "if no pre-flight runs now, end them: nodemanager check-cloud --boot",
    )
