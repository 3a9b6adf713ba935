//! The table of `tests/BEHAVIOURS.md` tells the truth: what it names exists and is run, and no row is without a test.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::HashMap;
use std::fs;
use std::path::Path;

const TABLE: &str = "tests/BEHAVIOURS.md";

#[derive(Debug, PartialEq, Eq)]
struct Row {
    number: u32,
    priority: String,
    /// File and name.
    tests: Vec<(String, String)>,
}

fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn rows(table: &str) -> Vec<Row> {
    let cells = table.lines().filter_map(|line| {
        let cells: Vec<_> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        Some((cells[0].parse().ok()?, cells))
    });
    cells
        .map(|(number, cells)| {
            let [_, priority, fault, thread, tests] = cells[..] else { panic!("row {number}: {cells:?}") };
            assert!(!fault.is_empty() && thread.contains('#'), "row {number} says what and where");
            let tests = tests.split('`').skip(1).step_by(2);
            let test = |text: &str| {
                let (file, name) = text.split_once("::").unwrap_or_else(|| panic!("row {number}: {text}"));
                (file.to_owned(), name.to_owned())
            };
            Row { number, priority: priority.to_owned(), tests: tests.map(test).collect() }
        })
        .collect()
}

/// Whether a source has a test of this name that is run: its attributes stand in the lines before it.
fn is_run(source: &str, name: &str) -> bool {
    let lines: Vec<_> = source.lines().map(str::trim).collect();
    let at = lines.iter().position(|line| {
        let test = line.strip_prefix("fn ").and_then(|rest| rest.strip_prefix(name));
        // A line of a table of scenarios.
        let scenario =
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(": ") && rest.contains("..="));
        test.is_some_and(|rest| rest.starts_with('(')) || scenario
    });
    let Some(at) = at else { return false };
    let attributes =
        || lines[..at].iter().rev().take_while(|line| line.starts_with('#') || line.starts_with("//"));
    let test = !lines[at].starts_with("fn ") || attributes().any(|line| *line == "#[test]");
    test && !attributes().any(|line| line.starts_with("#[ignore"))
}

#[test]
fn each_test_that_the_table_names_exists_and_is_run() {
    let mut sources = HashMap::new();
    let mut missing = Vec::new();
    for row in rows(&read(TABLE)) {
        for (at, test) in row.tests.iter().enumerate() {
            assert!(!row.tests[..at].contains(test), "row {} names {} twice", row.number, test.1);
        }
        for (file, name) in row.tests {
            let source = sources.entry(file.clone()).or_insert_with(|| read(&file));
            if !is_run(source, &name) {
                missing.push(format!("row {}: {file}::{name}", row.number));
            }
        }
    }
    assert!(missing.is_empty(), "no such test, or not run:\n{}", missing.join("\n"));
}

#[test]
fn each_row_of_the_table_has_a_test() {
    let rows = rows(&read(TABLE));
    let without: Vec<_> = rows.iter().filter(|row| row.tests.is_empty()).map(|row| row.number).collect();
    assert!(without.is_empty(), "rows without a test: {without:?}");
    assert!(rows.iter().all(|row| matches!(&*row.priority, "P0" | "P1" | "P2")));
    let mut numbers: Vec<_> = rows.iter().map(|row| row.number).collect();
    numbers.sort_unstable();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "a row is there twice: {numbers:?}");
    // A row is not to be lost from the table by mistake.
    assert_eq!(rows.iter().filter(|row| row.priority == "P0").count(), P0_ROWS);
}

/// How many rows are P0.
const P0_ROWS: usize = 76;

#[test]
fn what_is_ignored_or_no_test_is_found_out() {
    let source = "#[test]\nfn good() {\n#[test]\n#[ignore = \"slow\"]\nfn slow() {\nfn helper() {\n/// Says.\n#[test]\n#[cfg(unix)]\nfn more() {\nscene: ..=1.6, act;\n#[ignore]\nidle: ..=1.6, act;\nfield: u8,\n";
    let names = ["good", "slow", "helper", "more", "goo", "none", "scene", "idle", "field"];
    let found = names.map(|name| is_run(source, name));
    assert_eq!(found, [true, false, false, true, false, false, true, false, false]);
    assert_eq!(rows("| # | P |\n|---|---|\n| 1 | P0 | f | a/b#1 | none |\n")[0].tests, []);
}
