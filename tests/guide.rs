//! The guide's page on messages is about messages that there are, and its definition of a kind is one. Its snippets of Rust
//! are doc tests.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::Path;
use std::time::Duration;

use listwatch::types::CustomResourceDefinition;
use listwatch::{Api, ApiResource, ApiServer, Object, PostParams, Scope, Stop, wait};
use serde_json::json;

/// Those of the API server itself, and of the system.
const NOT_OURS: [&str; 10] = [
    "is forbidden: User",
    "cannot list resource",
    "Unauthorized",
    "404 page not found",
    "the object has been modified",
    "Apply failed with",
    "the server could not find the requested resource",
    "not found",
    "unknown field",
    "Connection refused",
];

#[test]
fn each_message_that_the_guide_explains_is_in_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = String::new();
    read(&root.join("src"), &mut sources);
    // A text that goes on in the next line of a source.
    let sources = sources.split("\\\n").map(str::trim_start).collect::<String>();
    let page = fs::read_to_string(root.join("src/guide/troubleshooting.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let (mut parts, mut missing) = (0, Vec::new());
    for row in rows {
        let cell = row.split(" | ").next().unwrap();
        // Within ticks, and between what changes.
        for part in cell.split('`').step_by(2).flat_map(|message| message.split('…')) {
            let part = part.trim_matches([' ', ':', ';', ',']);
            let ours = !NOT_OURS.iter().any(|other| part.contains(other));
            if part.len() > 3 && ours {
                parts += 1;
                if !sources.contains(part) {
                    missing.push(part);
                }
            }
        }
    }
    assert!(parts > 50, "{parts} parts were found: has the page another form?");
    assert!(missing.is_empty(), "not in the sources: {missing:#?}");
}

#[test]
fn the_definition_of_the_guide_is_taken_by_a_server_and_refuses_what_it_says() {
    let page = include_str!("../src/guide/controller.md");
    let definition = page.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let (server, params) = (ApiServer::start().unwrap(), PostParams::default());
    let client = server.client().unwrap();
    let definitions = Api::<CustomResourceDefinition>::all(&client);
    Api::<Object>::all_with(&client, definitions.resource())
        .create(&params, &Object::from_json(definition).unwrap())
        .unwrap();
    let soon = Duration::from_secs(20);
    wait::until(&definitions, "sites.example.com", wait::crd_established(), soon, &Stop::new()).unwrap();

    let sites = ApiResource::new("example.com/v1", "Site", "sites", Scope::Namespaced);
    let sites = Api::<Object>::namespaced_with(&client, "default", &sites);
    let site = |name, title| {
        let metadata = json!({"name": name});
        let site = json!({"apiVersion": "example.com/v1", "kind": "Site", "metadata": metadata, "spec": {"title": title}});
        Object::from_value(site).unwrap()
    };
    sites.create(&params, &site("hello", "Hello")).unwrap();
    assert!(sites.create(&params, &site("empty", "")).unwrap_err().is_invalid());
}

fn read(folder: &Path, sources: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}
