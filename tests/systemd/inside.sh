#!/bin/sh
# First process of the box (tests/systemd/box.py): nothing of this machine can be written from here on, but
# for what is mounted below; then a systemd that knows no unit but ours.
set -eu
mount --make-rprivate /
for fs in /run /tmp /var /opt /mnt; do mount -t tmpfs -o mode=0755 tmpfs "$fs"; done
mkdir -p /var/lib /var/log /var/tmp /mnt/etc
cp -a /etc/. /mnt/etc
rm -rf /mnt/etc/systemd/system /mnt/etc/nodemanager
mkdir -p /mnt/etc/systemd/system
mount --bind /mnt/etc /etc
# Where systemd puts credentials together; as its own mounts, else they are for root alone.
mount --rbind /dev /dev
if [ -d /dev/shm ]; then mount -t tmpfs tmpfs /dev/shm; fi
chmod 1777 /tmp /var/tmp
mount -t tmpfs -o mode=0755 tmpfs /sys/fs/cgroup
case $1 in
v2) mount -t cgroup2 cgroup2 /sys/fs/cgroup ;;
*)
    mkdir /sys/fs/cgroup/systemd
    mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd
    ;;
esac
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
mount -o remount,bind,ro /
units=/etc/systemd/system
for unit in basic network-online multi-user sysinit shutdown; do
    printf '[Unit]\nDefaultDependencies=no\n' >"$units/$unit.target"
done
for unit in systemd-journald.service systemd-journald.socket systemd-journald-dev-log.socket; do
    cp "/lib/systemd/system/$unit" "$units/"
done
mkdir "$units/basic.target.wants"
ln -s ../systemd-journald.service "$units/basic.target.wants/"
export SYSTEMD_UNIT_PATH=$units container=box HOME=/tmp
exec /lib/systemd/systemd --system --unit=basic.target --show-status=no --log-target=journal </dev/null
