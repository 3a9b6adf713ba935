#!/usr/bin/env bash
# Starts etcd and kube-apiserver on loopback in DIR (emptied first) and waits until they are ready: about 3 s.
#   up.sh DIR [kube-apiserver flag…]
# Leaves DIR/kubeconfig (client certificate), DIR/pki, DIR/port, DIR/etcd.port, DIR/*.pid and DIR/*.log. Two users have
# tokens: admin-token may do all, limited-token (user `limited`) what RBAC gives it. There are no controllers and no
# nodes: objects are stored, listed, watched and validated as in any cluster, and nothing acts on them.
#   PORT, ETCD_PORT      26443, 23790 by default
#   KUBEBUILDER_ASSETS   the folder of both binaries; by default where build.sh puts them. Exit code 3 if there are none
#   HOLD=1               go on until standard input ends, then stop both and remove DIR: nothing outlives the caller
# Without HOLD: kill $(cat DIR/apiserver.pid) $(cat DIR/etcd.pid)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$1; shift
version=$(sed -n 's|^\tk8s.io/kubernetes v||p' "$here/go.mod")
assets=${KUBEBUILDER_ASSETS:-${XDG_CACHE_HOME:-$HOME/.cache}/listwatch/kube-apiserver-$version}
if [ ! -x "$assets/kube-apiserver" ] || [ ! -x "$assets/etcd" ]; then
  echo "no kube-apiserver and etcd in $assets; build them with tests/real/apiserver/build.sh (Go, 3 minutes)" >&2
  exit 3
fi
rm -rf "$dir"; mkdir -p "$dir/pki"; cd "$dir"; dir=$PWD
port=${PORT:-26443}; etcd=${ETCD_PORT:-23790}
echo "$port" > port; echo "$etcd" > etcd.port; echo "$assets" > assets

down() { # kills by the ids that were written, as the server may have been started anew
  for file in "$dir"/*.pid; do
    kill -9 "$(cat "$file")" 2>/dev/null || true
  done
  rm -rf "$dir"
}
[ -z "${HOLD:-}" ] || trap down EXIT

key() { openssl ecparam -genkey -name prime256v1 -noout -out "pki/$1.key"; }
signed() { # NAME SUBJECT EXTENSION
  key "$1"
  openssl req -new -key "pki/$1.key" -subj "$2" -out "pki/$1.csr"
  openssl x509 -req -in "pki/$1.csr" -CA pki/ca.crt -CAkey pki/ca.key -CAcreateserial -days 30 -extfile <(echo "$3") -out "pki/$1.crt"
}
{
  key sa; openssl ec -in pki/sa.key -pubout -out pki/sa.pub
  key ca; openssl req -x509 -new -key pki/ca.key -subj /CN=test-ca -days 30 -out pki/ca.crt
  signed admin "/O=system:masters/CN=admin" extendedKeyUsage=clientAuth
  signed server /CN=kube-apiserver subjectAltName=IP:127.0.0.1,DNS:localhost
} > openssl.log 2>&1
printf '%s\n' admin-token,admin,uid1,system:masters limited-token,limited,uid2 > tokens.csv
cat > kubeconfig <<Y
apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: "https://127.0.0.1:$port", certificate-authority: pki/ca.crt}}]
users: [{name: admin, user: {client-certificate: pki/admin.crt, client-key: pki/admin.key}}]
contexts: [{name: test, context: {cluster: test, user: admin, namespace: default}}]
Y

"$here/etcd.sh" "$dir"
"$here/apiserver.sh" "$dir" "$@"
echo "$dir/kubeconfig"
[ -z "${HOLD:-}" ] || cat > /dev/null
