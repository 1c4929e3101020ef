#!/bin/sh
# Runs once, inside the image that is being built.
set -eu

# Hosts made from one image must not share an identity: keys and machine id are made at first boot.
rm -f /etc/ssh/ssh_host_*
: > /etc/machine-id
ln -sf /etc/machine-id /var/lib/dbus/machine-id

useradd --create-home --shell /bin/bash train
# An unlocked account with no valid password: sshd refuses keys too for a locked one.
usermod --password '*' train
echo 'train ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/train
chmod 0440 /etc/sudoers.d/train
visudo --check --quiet

# Each user keeps bytecode of its own there (kept_bytecode.py).
install --directory --mode=1777 /var/cache/kept_bytecode

systemctl enable ssh.service ssh-host-keys.service
# Installed, as on many servers, and not in use: a scenario starts it where it wants it.
systemctl disable firewalld.service haproxy.service
systemctl set-default multi-user.target
# The engine, not systemd, provides devices, consoles, /dev and the network; timers would only disturb measurements.
systemctl mask \
    console-getty.service getty.target getty@tty1.service \
    systemd-udevd.service systemd-udevd-control.socket systemd-udevd-kernel.socket systemd-udev-trigger.service \
    systemd-modules-load.service systemd-sysctl.service systemd-remount-fs.service \
    systemd-firstboot.service systemd-random-seed.service systemd-update-utmp.service \
    sys-kernel-config.mount sys-kernel-debug.mount sys-kernel-tracing.mount sys-fs-fuse-connections.mount \
    dev-hugepages.mount dev-mqueue.mount proc-sys-fs-binfmt_misc.automount \
    apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
    fstrim.timer systemd-tmpfiles-clean.timer
