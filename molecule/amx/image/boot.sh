#!/bin/sh
# Boot a kernel in Bochs with the files of /payload: boot.sh KERNEL [FLAG,FLAG...]
# The kernel is to ignore these flags of the CPU (clearcpuid). The disk /disk/disk.img is never written to; the serial
# console goes to /machine/console.
set -eu
kernel="/kernels/$1" cleared="${2:-}"
mkdir -p /tmp/iso/isolinux
cp "$kernel/vmlinuz" "$kernel/initrd" /usr/lib/ISOLINUX/isolinux.bin /usr/lib/syslinux/modules/bios/ldlinux.c32 \
    /tmp/iso/isolinux
(cd / && find payload | cpio --create --format newc --quiet) >> /tmp/iso/isolinux/initrd
# 580 is FSRM, which Bochs shows without ERMS: the kernel's memmove would run past its end.
cat > /tmp/iso/isolinux/isolinux.cfg << END
default linux
label linux
kernel vmlinuz
append initrd=initrd console=ttyS0,115200 mitigations=off nokaslr nolapic noapic nohpet tsc=unstable lpj=400000 nopku nopcid noinvpcid clearcpuid=580${cleared:+,$cleared}
END
xorriso -as mkisofs -quiet -o /tmp/boot.iso -b isolinux/isolinux.bin -c isolinux/boot.cat -no-emul-boot \
    -boot-load-size 4 -boot-info-table /tmp/iso
exec bochs -q -f /emulator/bochsrc
