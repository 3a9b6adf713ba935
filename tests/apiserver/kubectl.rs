//! The real kubectl against the server.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use listwatch::apiserver::ApiServer;
use listwatch::events::{EventRecorder, EventType};
use listwatch::types::{ObjectReference, Pod};
use listwatch::{Api, Clock, Stop};

use crate::client::{CM, create_all, delete};
use crate::custom::definition;

struct Kubectl {
    config: PathBuf,
    /// kubectl's own cache of discovery, apart from the user's.
    cache: PathBuf,
}

impl Kubectl {
    /// `None`, and a word about it, if there is no kubectl.
    fn new(server: &ApiServer) -> Option<Self> {
        if Command::new("kubectl").args(["version", "--client"]).output().is_err() {
            assert_ne!(std::env::var("LISTWATCH_KUBECTL").as_deref(), Ok("required"), "no kubectl");
            // Not through eprintln!, which is captured.
            drop(std::io::stderr().write_all(b"SKIPPED: kubectl is not installed\n"));
            return None;
        }
        let config = server.kubeconfig().unwrap();
        let cache = config.parent().map(Path::to_path_buf).unwrap().join("cache");
        Some(Self { config, cache })
    }

    fn command(&self, args: &str) -> Command {
        let mut command = Command::new("kubectl");
        command.env("KUBECONFIG", &self.config).args(args.split(' ')).arg("--cache-dir").arg(&self.cache);
        command
    }

    /// Runs it; whether it succeeded, and all that it printed.
    fn run(&self, args: &str, input: &str) -> (bool, String) {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    }

    fn ok(&self, args: &str, input: &str) -> String {
        let (success, text) = self.run(args, input);
        assert!(success, "kubectl {args}: {text}");
        text
    }
}

/// The words of a table, line by line.
fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect()).collect()
}

const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: web}}
spec: {containers: [{name: a, image: 'x:1'}]}
";

fn deployment(image: &str) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec: {{containers: [{{name: a, image: '{image}', ports: [{{containerPort: 80}}]}}, {{name: b, image: z}}]}}
"
    )
}

#[test]
fn kubectl_works_with_built_in_kinds() {
    let server = ApiServer::start().unwrap();
    let Some(kubectl) = Kubectl::new(&server) else { return };
    kubectl.ok("create -f -", POD);
    let text = kubectl.ok("get pods", "");
    assert_eq!(rows(&text)[0], ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]);
    assert_eq!(rows(&text)[1][..4], ["p", "0/1", "Pending", "0"]);
    assert!(kubectl.ok("get pod p -o yaml", "").contains("image: x:1"));
    kubectl.ok("label pod p tier=front", "");
    kubectl.ok(r#"patch pod p -p {"spec":{"containers":[{"name":"a","image":"x:2"}]}}"#, "");
    assert_eq!(
        kubectl.ok("get pods -l tier=front -o jsonpath={.items[0].spec.containers[0].image}", ""),
        "x:2"
    );
    let again = kubectl.run("create -f -", POD);
    assert!(!again.0 && again.1.contains("AlreadyExists"), "{}", again.1);

    assert!(kubectl.ok("apply -f -", &deployment("x:1")).contains("created"));
    assert!(kubectl.ok("apply -f -", &deployment("x:1")).contains("unchanged"));
    assert!(kubectl.ok("apply -f -", &deployment("x:2")).contains("configured"));
    let images = "get deploy web -o jsonpath={.spec.template.spec.containers[*].image}";
    assert_eq!(kubectl.ok(images, ""), "x:2 z");
    kubectl.ok("scale deploy web --replicas=3", "");
    assert_eq!(rows(&kubectl.ok("get deployments", ""))[1][..4], ["web", "0/3", "0", "0"]);
    assert!(
        kubectl
            .ok("apply --server-side --force-conflicts -f -", &deployment("x:3"))
            .contains("serverside-applied")
    );
    assert_eq!(kubectl.ok(images, ""), "x:3 z");
    kubectl.ok("delete pod p", "");
    kubectl.ok("delete deployment web", "");
    assert!(kubectl.ok("get all", "").contains("No resources found"));
}

#[test]
fn kubectl_works_with_custom_resources() {
    let server = ApiServer::start().unwrap();
    let Some(kubectl) = Kubectl::new(&server) else { return };
    kubectl.ok("apply -f -", &definition().to_string());
    kubectl.ok("wait --for=condition=Established crd/foos.example.com --timeout=20s", "");
    let foo = |size: i32| {
        format!("apiVersion: example.com/v1\nkind: Foo\nmetadata: {{name: f}}\nspec: {{size: {size}}}\n")
    };
    kubectl.ok("apply -f -", &foo(1));
    assert!(kubectl.ok("apply -f -", &foo(2)).contains("configured"));
    assert_eq!(rows(&kubectl.ok("get fo", "")), [["NAME", "SIZE"], ["f", "2"]]);
    kubectl.ok("scale foo f --replicas=4", "");
    kubectl.ok("wait --for=jsonpath={.spec.size}=4 foo/f --timeout=20s", "");
    let refused = kubectl.run("apply -f -", &foo(0));
    assert!(!refused.0 && refused.1.contains("greater than or equal to 1"), "{}", refused.1);
    let unknown = kubectl.run("apply -f -", &(foo(1) + "  \nnope: 1\n"));
    assert!(!unknown.0 && unknown.1.contains("unknown field"), "{}", unknown.1);
    assert!(kubectl.ok("api-resources", "").contains("foos"));
    assert!(kubectl.ok("explain foo.spec", "").contains("size"));
    kubectl.ok("delete foo f", "");
    kubectl.ok("delete crd foos.example.com", "");
    assert!(!kubectl.run("get foos", "").0);
}

#[test]
fn kubectl_watches() {
    let server = ApiServer::start().unwrap();
    let Some(kubectl) = Kubectl::new(&server) else { return };
    create_all(&server, &["a"]);
    let mut child = kubectl
        .command("get configmaps --watch --output-watch-events")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut next = || lines.next().unwrap().split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    assert_eq!((next(), next()), ("EVENT NAME".into(), "ADDED a".into()));
    create_all(&server, &["b"]);
    assert_eq!(next(), "ADDED b");
    delete(&server, &format!("{CM}/a")).expect(200);
    assert_eq!(next(), "DELETED a");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The recorder writes events of events.k8s.io, kubectl asks for those of the core group.
#[test]
fn kubectl_shows_the_events_of_a_recorder() {
    let server = ApiServer::start().unwrap();
    let Some(kubectl) = Kubectl::new(&server) else { return };
    kubectl.ok("create -f -", POD);
    let (client, stop) = (server.client().unwrap(), Stop::new());
    let pod = Api::<Pod>::default_namespaced(&client).get("p").unwrap();
    let recorder = EventRecorder::start(&client, "example.com/foo", &stop).unwrap();
    recorder.event(&ObjectReference::of(&pod), EventType::Warning, "Evicted", "Evict", "its node is full");
    stop.stop();
    recorder.join();
    let line = ["Warning", "Evicted", "pod/p", "its", "node", "is", "full"];
    for args in ["get events", "get events.events.k8s.io", "events", "events --for pod/p"] {
        let text = kubectl.ok(args, "");
        assert_eq!(rows(&text)[0], ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"], "{args}");
        let shown =
            rows(&text)[1].iter().position(|word| *word == "Warning").unwrap_or_else(|| panic!("{text}"));
        let object = if args.starts_with("events") { "Pod/p" } else { "pod/p" };
        let mut line = line;
        line[2] = object;
        assert_eq!(rows(&text)[1][shown..], line, "{args}");
    }
    let text = kubectl.ok("describe pod p", "");
    let last = rows(&text).pop().unwrap().join(" ");
    assert!(
        last.starts_with("Warning Evicted") && last.ends_with("example.com/foo its node is full"),
        "{text}"
    );
}

/// kubectl from 1.32 on sends what it makes itself as protobuf.
#[test]
fn kubectl_shows_the_way_around_protobuf() {
    let server = ApiServer::start().unwrap();
    let Some(kubectl) = Kubectl::new(&server) else { return };
    let (success, text) = kubectl.run("create namespace x", "");
    assert!(success || text.contains("--dry-run=client -o yaml"), "{text}");
    let manifest = kubectl.ok("create namespace y --dry-run=client -o yaml", "");
    assert!(kubectl.ok("apply -f -", &manifest).contains("namespace/y created"));
}

/// A command that goes on while the test does something.
struct Waiting(Child);

impl Waiting {
    fn start(kubectl: &Kubectl, args: &str) -> Self {
        let mut command = kubectl.command(args);
        Self(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    #[track_caller]
    fn succeeds(mut self) -> String {
        let mut text = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(self.0.wait().unwrap().success(), "{text}");
        text
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        drop(self.0.kill()); // where the test has failed
        drop(self.0.wait());
    }
}

/// Waits until there was a watch of this path, with this in its query.
fn watched(server: &ApiServer, path: &str, query: &str) {
    until(server, |request| {
        request.contains(path) && request.contains("watch=true") && request.contains(query)
    });
}

/// Waits until there was such a request.
#[track_caller]
fn until(server: &ApiServer, is: impl Fn(&str) -> bool) {
    let (clock, stop) = (Clock::system(), Stop::new());
    let deadline = clock.now() + Duration::from_secs(60);
    while !server.requests().iter().any(|request| is(request)) {
        assert!(clock.now() < deadline, "{:#?}", server.requests());
        stop.sleep(Duration::from_millis(5));
    }
}

#[test]
fn kubectl_waits_for_conditions_and_deletions() {
    let server = ApiServer::start().unwrap();
    let Some(kubectl) = Kubectl::new(&server) else { return };
    kubectl.ok("apply -f -", &deployment("x:1"));
    let one = "fieldSelector=metadata.name";
    let available = Waiting::start(&kubectl, "wait --for=condition=Available deployment/web --timeout=60s");
    watched(&server, "/deployments", one);
    let status = r#"patch deployment web --subresource=status -p {"status":{"conditions":[{"type":"Available","status":"True"}]}}"#;
    kubectl.ok(status, "");
    assert!(available.succeeds().contains("condition met"));

    kubectl.ok("create -f -", POD);
    let gone = Waiting::start(&kubectl, "wait --for=delete pod/p --timeout=60s");
    watched(&server, "/pods", one);
    kubectl.ok("delete pod p --wait=false", "");
    assert!(gone.succeeds().contains("condition met"));
    // What is not there has been deleted; what does not come is not.
    kubectl.ok("wait --for=delete pod/p --timeout=60s", "");
    let (success, text) = kubectl.run("wait --for=condition=Ready deployment/web --timeout=1s", "");
    assert!(!success && text.contains("timed out"), "{text}");

    // Deleting waits for finalizers.
    kubectl.ok(r#"patch deployment web -p {"metadata":{"finalizers":["example.com/f"]}}"#, "");
    let deletion = Waiting::start(&kubectl, "delete deployment web");
    until(&server, |request| request.starts_with("DELETE ") && request.contains("/deployments/web"));
    kubectl.ok(r#"patch deployment web --type=json -p [{"op":"remove","path":"/metadata/finalizers"}]"#, "");
    assert!(deletion.succeeds().contains("deleted"));
    assert!(kubectl.ok("get deployments", "").contains("No resources found"));
}

#[test]
fn kubectl_rolls_out_scales_and_replaces() {
    let server = ApiServer::start().unwrap();
    let Some(kubectl) = Kubectl::new(&server) else { return };
    kubectl.ok("apply -f -", &deployment("x:1"));
    let rollout = Waiting::start(&kubectl, "rollout status deployment/web --timeout=60s");
    watched(&server, "/deployments", "");
    let status = r#"patch deployment web --subresource=status -p {"status":{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"availableReplicas":1,"readyReplicas":1}}"#;
    kubectl.ok(status, "");
    assert!(rollout.succeeds().contains("successfully rolled out"));

    let (success, text) = kubectl.run("scale deploy web --current-replicas=5 --replicas=2", "");
    assert!(!success && text.contains("Expected replicas to be 5, was 1"), "{text}");
    kubectl.ok("scale deploy web --current-replicas=1 --replicas=2", "");
    kubectl.ok("set image deploy/web a=x:2", "");
    kubectl.ok("annotate deploy web note=x", "");
    let shown = "get deploy web -o jsonpath={.spec.replicas}|{.spec.template.spec.containers[0].image}|{.metadata.annotations.note}|{.metadata.generation}";
    assert_eq!(kubectl.ok(shown, ""), "2|x:2|x|3");
    kubectl.ok("replace -f -", &deployment("x:3"));
    assert_eq!(kubectl.ok(shown, ""), "1|x:3||4");
    assert!(kubectl.ok("describe deploy web", "").contains("Image:        x:3"));

    let maps = "
apiVersion: v1
kind: ConfigMap
metadata: {name: m1, labels: {set: s}}
---
apiVersion: v1
kind: Secret
metadata: {name: s1, labels: {set: s}}
stringData: {k: v}
";
    kubectl.ok("apply -f -", maps);
    assert_eq!(kubectl.ok("get secret s1 -o jsonpath={.data.k}", ""), "dg==");
    assert_eq!(rows(&kubectl.ok("get configmaps,secrets -A -l set=s --no-headers", "")).len(), 2);
    kubectl.ok("delete configmaps,secrets -l set=s", "");
    assert!(kubectl.ok("get configmaps,secrets -l set=s", "").contains("No resources found"));
}
