#!/usr/bin/env python3
"""A stand-in for kiwigrid's k8s-sidecar, of the same shape and on the same libraries, as its own release could not be had where
this was written: lists at the start, then forks a process for each kind that watches by the `kubernetes` package, compares by
SHA-256 and writes. It leaves out what the other also loads and runs (FastAPI and uvicorn for its probes, JSON logs), so it flatters
it. Reads KUBECONFIG, LABEL, FOLDER, NAMESPACE, RESOURCE."""
import base64, hashlib, logging, os, time
from multiprocessing import Process

import requests  # for REQ_URL there; here for its memory
from kubernetes import client, config, watch

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger()
LABEL, FOLDER, NAMESPACE = os.environ["LABEL"], os.environ["FOLDER"], os.environ.get("NAMESPACE", "default")
KINDS = {"configmap": ["configmap"], "secret": ["secret"], "both": ["secret", "configmap"]}[os.environ.get("RESOURCE", "configmap")]
before = {}


def lister(kind):
    api = client.CoreV1Api()
    return api.list_namespaced_config_map if kind == "configmap" else api.list_namespaced_secret


def contents(kind, item):
    if kind == "configmap":
        found = {key: text.encode() for key, text in (item.data or {}).items()}
        binary = item.binary_data or {}
    else:
        found, binary = {}, item.data or {}
    return found | {key: base64.b64decode(text) for key, text in binary.items()}


def write(path, data):
    if os.path.exists(path):
        with open(path, "rb") as file:
            if hashlib.sha256(file.read()).digest() == hashlib.sha256(data).digest():
                return
    with open(path, "wb") as file:
        file.write(data)
    log.info("wrote %s", path)


def process(kind, item, gone=False):
    key = (kind, item.metadata.namespace, item.metadata.name)
    now = {} if gone else contents(kind, item)
    for name in set(before.get(key, {})) - set(now):
        os.remove(os.path.join(FOLDER, name))
    for name, data in now.items():
        write(os.path.join(FOLDER, name), data)
    before[key] = now


def follow(kind):
    while True:
        stream = watch.Watch().stream(lister(kind), namespace=NAMESPACE, label_selector=LABEL, timeout_seconds=60, _request_timeout=66)
        try:
            for event in stream:
                process(kind, event["object"], event["type"] == "DELETED")
        except Exception as error:
            log.error("%s", error)
            time.sleep(5)


if __name__ == "__main__":
    config.load_kube_config(os.environ["KUBECONFIG"])
    for kind in KINDS:
        for item in lister(kind)(namespace=NAMESPACE, label_selector=LABEL).items:
            process(kind, item)
    children = [Process(target=follow, args=(kind,), daemon=True) for kind in KINDS]
    for child in children:
        child.start()
    while all(child.is_alive() for child in children):
        time.sleep(5)
