#!/usr/bin/env bash
# Starts the kube-apiserver in a folder made by up.sh, whose etcd runs, and waits until it is ready.
#   apiserver.sh DIR [kube-apiserver flag…]
# For one that was killed, or (NAME=second PORT=…) for another beside it. Its id is in DIR/NAME.pid, by default apiserver.pid.
set -euo pipefail
cd "$1"; dir=$PWD; shift
name=${NAME:-apiserver}; port=${PORT:-$(cat port)}
nohup "$(cat assets)/kube-apiserver" --etcd-servers="http://127.0.0.1:$(cat etcd.port)" --secure-port="$port" \
  --bind-address=127.0.0.1 --cert-dir="$dir/pki" --tls-cert-file=pki/server.crt --tls-private-key-file=pki/server.key \
  --client-ca-file=pki/ca.crt --token-auth-file=tokens.csv --authorization-mode=RBAC \
  --service-account-issuer=https://kubernetes.default.svc --service-account-key-file=pki/sa.pub \
  --service-account-signing-key-file=pki/sa.key --disable-admission-plugins=ServiceAccount \
  --service-cluster-ip-range=10.0.0.0/24 --allow-privileged "$@" >> "$name.log" 2>&1 < /dev/null & pid=$!
echo "$pid" > "$name.pid"
for _ in $(seq 300); do
  kill -0 "$pid" 2>/dev/null || break
  ready=$(curl -s --cacert pki/ca.crt -H 'Authorization: Bearer admin-token' "https://127.0.0.1:$port/readyz" || true)
  [ "$ready" != ok ] || exit 0
  sleep 0.2
done
{ echo "kube-apiserver does not become ready:"; tail -n 5 "$name.log" etcd.log; } >&2
exit 1
