#!/bin/sh
# Have apt know the packages of another Debian, and no others: release.sh CODENAME
# They come from the mirror that this image uses, or, where it has that release no longer, from Debian's archive.
set -eu
[ -e /emulator/mirror ] || apt-get indextargets --format '$(REPO_URI)' \
    'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | head --lines 1 > /emulator/mirror
rm -f /etc/apt/sources.list.d/*
for mirror in $(cat /emulator/mirror) http://archive.debian.org/debian; do
    printf '%s %s %s main\n' deb "$mirror" "$1" deb-src "$mirror" "$1" > /etc/apt/sources.list
    if apt-get --option APT::Update::Error-Mode=any update; then
        exit
    fi
done
exit 1
