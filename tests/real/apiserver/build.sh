#!/usr/bin/env bash
# Builds kube-apiserver and etcd from their Go modules into a cache folder, or the one given: about 3 minutes, once.
# Needs Go. Prints the folder, which has the layout that KUBEBUILDER_ASSETS names by convention.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
version=$(sed -n 's|^\tk8s.io/kubernetes v||p' "$here/go.mod")
out=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/listwatch/kube-apiserver-$version}
if [ ! -x "$out/kube-apiserver" ] || [ ! -x "$out/etcd" ]; then
  mkdir -p "$out"
  build=$(mktemp -d "$out/build.XXXXXX"); trap 'rm -rf "$build"' EXIT
  package=k8s.io/component-base/version
  (
    IFS=. read -r major minor _ <<< "$version"
    cd "$here"
    CGO_ENABLED=0 go build -trimpath -o "$build/" \
      -ldflags "-s -w -X $package.gitVersion=v$version -X $package.gitMajor=$major -X $package.gitMinor=$minor" \
      ./etcd ./kube-apiserver
  ) >&2
  mv "$build/etcd" "$build/kube-apiserver" "$out/"
fi
echo "$out"
