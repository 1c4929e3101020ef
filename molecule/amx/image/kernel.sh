#!/bin/sh
# Get Debian's kernel, and make an initrd of what an emulated machine needs: kernel.sh NAME CODENAME
# Into /kernels/NAME: vmlinuz and initrd.
set -eu
kernel="/kernels/$1" root="/kernels/$1/root" tree="/kernels/$1/tree"
mkdir -p "$root" "$tree/bin" "$tree/modules"
# The package linux-image-amd64 depends on that of the newest kernel.
sh /emulator/release.sh "$2"
# The newest of Debian 12 is among its security updates.
if [ "$2" = bookworm ]; then
    sed -n 's,^deb \(.*[^/]\)/* bookworm main$,deb \1-security bookworm-security main,p' /etc/apt/sources.list \
        > /etc/apt/sources.list.d/security.list
    apt-get update
fi
(cd "$kernel" && apt-get download "$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: //p' | head --lines 1)")
dpkg-deb --extract "$kernel"/*.deb "$root"
release="$(ls "$root/lib/modules")"
cp "$root/boot/vmlinuz-$release" "$kernel/vmlinuz"
depmod --basedir "$root" "$release"
for module in crc32c_generic ata_piix sd_mod ext4; do
    modprobe --dirname "$root" --set-version "$release" --show-depends "$module"
done | awk '$1 == "insmod" && !seen[$2]++ {print $2}' > "$kernel/modules"
number=100
while read -r module; do
    cp "$module" "$tree/modules/$number.ko"
    number=$((number + 1))
done < "$kernel/modules"
cp /bin/busybox "$tree/bin/busybox"
install /emulator/init "$tree/init"
(cd "$tree" && find . | cpio --create --format newc --quiet) > "$kernel/initrd"
rm -r "$root" "$tree" "$kernel"/*.deb
