#!/bin/sh
# Build Kubernetes 1.20.2 for tests from Debian's packages alone: build.sh DIRECTORY. It gets kube-apiserver,
# kube-controller-manager, kube-scheduler, kubelet, etcd and a static busybox, which a pod's sandbox runs.
#
# Debian 12 has the sources (Debian 13 and 11 have no server of Kubernetes), Debian 11 the Go that they want: newer ones
# build a server that crashes. Packages come from the mirror that this machine's apt uses, by its own settings. Nothing
# is installed.
set -eu
target="$1"
work="$target.work"
keys=/usr/share/keyrings/debian-archive-keyring.gpg
version=v1.20.2

say() {
    printf '%s %s\n' "$(date +%H:%M:%S)" "$*"
}

rm -rf "$work"
mkdir -p "$work/apt/lists/partial" "$work/packages" "$work/go/src/k8s.io" "$work/bin"
# apt downloads as a user of its own where it can.
chmod 755 "$work"

mirror="$(apt-get indextargets --format "\$(REPO_URI)" 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | head -n 1)"
if [ -z "$mirror" ]; then
    echo "This machine's apt has no mirror of Debian: Kubernetes is built from Debian's packages." >&2
    exit 1
fi
cat > "$work/apt/sources.list" <<END
deb-src [signed-by=$keys] $mirror bookworm main
deb [signed-by=$keys] $mirror bookworm main
deb [signed-by=$keys] $mirror bullseye main
END
apt() {
    apt-get --quiet=2 -o "Dir::Etc::sourcelist=$work/apt/sources.list" -o Dir::Etc::sourceparts=- \
        -o "Dir::State::lists=$work/apt/lists" -o APT::Sandbox::User=root "$@"
}
say "reading which packages Debian 11 and 12 have"
apt update
say "downloading sources, Go 1.15, etcd and busybox"
cd "$work/packages"
apt source --download-only kubernetes/bookworm
apt download golang-1.15-go/bullseye golang-1.15-src/bullseye busybox-static/bookworm etcd-server/bookworm
for package in *.deb; do
    dpkg -x "$package" "$work/root"
done
mkdir "$work/unpacked"
tar -xzf kubernetes_*.orig.tar.gz -C "$work/unpacked"
mv "$work/unpacked"/* "$work/go/src/k8s.io/kubernetes"

export GOROOT="$work/root/usr/lib/go-1.15" GOPATH="$work/go" GOCACHE="$work/cache" GO111MODULE=off GOFLAGS='' CGO_ENABLED=0
go="$GOROOT/bin/go"
cd "$GOPATH/src/k8s.io/kubernetes"
say "generating the description of the API, which the sources lack"
"$go" build -o "$work/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
# Those of staging/ are known by their links in vendor/.
packages="$(grep -rl --include='*.go' '^// *+k8s:openapi-gen=true' pkg cmd staging vendor \
    | grep -vE '/(code-generator|sample-apiserver)/' | xargs -n 1 dirname | sed 's#^staging/src/#vendor/#' | sort -u \
    | sed 's#^#k8s.io/kubernetes/#' | paste -sd ,)"
"$work/openapi-gen" --input-dirs "$packages" --output-package k8s.io/kubernetes/pkg/generated/openapi \
    --output-file-base zz_generated.openapi --go-header-file /dev/null --report-filename "$work/report" > /dev/null
say "building the programs"
# Two packages have the version: programs show that of the first, and the API server answers with that of the second.
flags="-s -w"
for package in component-base/version client-go/pkg/version; do
    set=k8s.io/kubernetes/vendor/k8s.io/$package
    flags="$flags -X $set.gitMajor=1 -X $set.gitMinor=20 -X $set.gitVersion=$version"
done
for program in kube-apiserver kube-controller-manager kube-scheduler kubelet; do
    "$go" build -ldflags "$flags" -o "$work/bin/" "./cmd/$program"
    say "built $program"
done
cp "$work/root/bin/busybox" "$work/root/usr/bin/etcd" "$work/bin/"
rm -rf "$target"
mv "$work/bin" "$target"
# Go keeps what it has downloaded read-only.
chmod -R u+w "$work"
rm -rf "$work"
say "built in $target: $(du -sh "$target" | cut -f 1)"
