//! The real kubectl against the server.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use listwatch::apiserver::ApiServer;

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
            eprintln!("SKIPPED: kubectl is not installed");
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
