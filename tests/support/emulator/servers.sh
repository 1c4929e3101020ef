#!/bin/sh
# Make the disk of emulated servers of an image of the Docker engine: servers.sh IMAGE DIRECTORY
#
# DIRECTORY gets disk.img (an ext4 file system), its vmlinuz and initrd.img, and ssh_key, with which the user train logs
# in. What is there already is kept. Installs QEMU where it is missing. Needs root or sudo, for the owners of files.
set -eu
image="$1" target="$2" work="$2.work"
PATH="$PATH:/usr/sbin:/sbin"

[ ! -e "$target" ] || exit 0
[ "$(id -u)" -eq 0 ] || exec sudo --non-interactive "$0" "$@"
if ! command -v qemu-system-x86_64 > /dev/null || ! command -v mke2fs > /dev/null; then
    apt-get update
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends qemu-system-x86 e2fsprogs
fi
rm -rf "$work"
mkdir -p "$work/root" "$work/built"
docker build --network host --tag "$image-server" --build-arg "BASE=$image" \
    "$(dirname "$0")/../../../molecule/servers/image"
container="$(docker create "$image-server")"
docker export "$container" | tar --extract --directory "$work/root"
docker rm "$container" > /dev/null
cp --dereference "$work/root/vmlinuz" "$work/root/initrd.img" "$work/built"
ssh-keygen -q -t ed25519 -N '' -C servers -f "$work/built/ssh_key"
train="$work/root/home/train"
owner="$(stat --format %u:%g "$train")"
install -d -m 0700 "$train/.ssh"
install -m 0600 "$work/built/ssh_key.pub" "$train/.ssh/authorized_keys"
chown -R "$owner" "$train/.ssh"
# What the engine mounts over, and what it leaves behind
printf '%s\n' '127.0.0.1 localhost' '10.29.0.10 node0' '10.29.0.11 node1' > "$work/root/etc/hosts"
rm -f "$work/root/.dockerenv" "$work/root/etc/resolv.conf" "$work/root/etc/hostname"
truncate --size=12G "$work/built/disk.img"
mke2fs -q -t ext4 -O ^has_journal -d "$work/root" "$work/built/disk.img"
chown -R "${SUDO_UID:-0}:${SUDO_GID:-0}" "$work/built"
mv "$work/built" "$target"
rm -rf "$work"
