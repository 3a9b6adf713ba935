#!/usr/bin/env bash
# Starts the etcd of a folder made by up.sh, with the data that lies there. Its id is in DIR/etcd.pid.
#   etcd.sh DIR
set -euo pipefail
cd "$1"; dir=$PWD
etcd=$(cat etcd.port)
# One member needs no peers: their port is any.
nohup "$(cat assets)/etcd" --data-dir "$dir/etcd" --unsafe-no-fsync --listen-peer-urls http://127.0.0.1:0 \
  --listen-client-urls "http://127.0.0.1:$etcd" --advertise-client-urls "http://127.0.0.1:$etcd" \
  >> etcd.log 2>&1 < /dev/null & echo $! > etcd.pid
disown # whose end is no news
