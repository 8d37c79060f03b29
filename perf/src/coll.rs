//! `coll`: why a collective operation takes its algorithm.

use netmod_mpi::coll::choice::explain::{Explanation, explain};
use netmod_mpi::coll::choice::{Forced, Machine, Operation, PATHS, Path, Setting};
use serde::Serialize;

use crate::cli::{CollArgs, message_size};
use crate::emit;
use crate::error::{Failure, Result};

/// The most processes whose choice is explained.
const MOST: usize = 1 << 24;

/// An explanation as JSON.
#[derive(Serialize)]
struct Told<'a> {
    operation: &'a str,
    bytes: usize,
    ranks: usize,
    nodes: usize,
    near: &'a str,
    far: &'a str,
    algorithms: Vec<Line<'a>>,
    bound_us: f64,
    ratio: f64,
}

/// An algorithm; the first one is chosen.
#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    source: &'a str,
    steps: u64,
    bytes: u64,
    us: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pieces: Option<usize>,
}

fn number(what: &str, text: &str, most: usize) -> Result<usize> {
    let got = text.parse().ok().filter(|n| (1..=most).contains(n));
    got.ok_or_else(|| Failure::new(format!("{what} {text:?} is not a number from 1 to {most}")))
}

fn path(name: &str) -> Result<Path> {
    let found = PATHS.iter().find(|p| p.name == name).copied();
    found.ok_or_else(|| {
        let names: Vec<&str> = PATHS.iter().map(|p| p.name).collect();
        Failure::new(format!("path {name:?} is unknown; there are {}", names.join(", ")))
    })
}

/// Explains the choice that the arguments ask for.
fn explained(args: &CollArgs) -> Result<Explanation> {
    let [operation, bytes, ranks, nodes] = &args.explain[..] else {
        return Err(Failure::new("--explain wants OP BYTES RANKS NODES"));
    };
    let operation = Operation::ALL.into_iter().find(|o| o.name() == operation).ok_or_else(|| {
        let names = Operation::ALL.map(Operation::name).join(", ");
        Failure::new(format!("operation {operation:?} is unknown; there are {names}"))
    })?;
    let bytes = message_size(bytes).map_err(|e| Failure::new(format!("bytes {bytes:?}: {e}")))?;
    let n = number("number of ranks", ranks, MOST)?;
    let nodes = number("number of nodes", nodes, n)?;
    let (near, far) = (path(&args.near)?, path(&args.far)?);
    let shared = nodes == 1 && near.name == "shm";
    let machine = Machine { near, far, nodes, per_node: n.div_ceil(nodes) };
    let starts = (nodes > 1 && nodes < n).then(|| (0..nodes).map(|i| (i * n / nodes) as u32).collect());
    // The environment's settings are part of the question.
    let config = ch3_shim::Config::from_env().map_err(|e| Failure::new(e.to_string()))?;
    let forced = Forced::read(|o| config.coll.algorithm(o as usize));
    Ok(explain(operation, bytes, n, &Setting { machine, forced, shared, starts }))
}

fn rounded(ns: f64) -> f64 {
    (ns / 10.0).round() / 100.0
}

fn told(e: &Explanation) -> Told<'_> {
    let line = |c: &'_ netmod_mpi::coll::choice::explain::Candidate| Line {
        name: c.name,
        source: c.work,
        steps: c.cost.steps,
        bytes: c.cost.bytes.round() as u64,
        us: rounded(c.cost.time),
        pieces: c.pieces,
    };
    let first = e.candidates.first().map_or(0.0, |c| c.cost.time);
    Told {
        operation: e.operation.name(),
        bytes: e.bytes,
        ranks: e.n,
        nodes: e.machine.nodes,
        near: e.machine.near.name,
        far: e.machine.far.name,
        algorithms: e.candidates.iter().map(line).collect(),
        bound_us: rounded(e.bound),
        ratio: if e.bound > 0.0 { (first / e.bound * 100.0).round() / 100.0 } else { 1.0 },
    }
}

fn table(told: &Told<'_>) -> String {
    let Told { operation, bytes, ranks, nodes, near, far, .. } = told;
    let place = if *nodes == 1 {
        format!("one node ({near})")
    } else {
        format!("{nodes} nodes ({near} within, {far} between)")
    };
    let mut text = format!("{operation} of {bytes} bytes, {ranks} ranks, {place}\n\n");
    let mut rows = comfy_table::Table::new();
    rows.load_preset(comfy_table::presets::ASCII_MARKDOWN);
    rows.set_header(["algorithm", "steps", "bytes", "time, us", "pieces", "source"]);
    for line in &told.algorithms {
        rows.add_row([
            line.name.to_owned(),
            line.steps.to_string(),
            line.bytes.to_string(),
            format!("{:.2}", line.us),
            line.pieces.map_or_else(String::new, |p| p.to_string()),
            line.source.to_owned(),
        ]);
    }
    text += &format!("{rows}\n\n");
    let first = told.algorithms.first().map_or("", |line| line.name);
    text += &format!(
        "{first} is taken; no algorithm by messages is faster than {:.2} us, of which its time is {:.2}\n",
        told.bound_us, told.ratio
    );
    text
}

/// Prints the explanation.
pub(crate) fn run(args: &CollArgs) -> Result<()> {
    let explanation = explained(args)?;
    let told = told(&explanation);
    if args.json {
        let text = serde_json::to_string(&told).map_err(|e| Failure::new(e.to_string()))?;
        return emit(&(text + "\n"));
    }
    emit(&table(&told))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: [&str; 4], near: &str) -> Result<Explanation> {
        let explain = words.map(str::to_owned).to_vec();
        explained(&CollArgs { explain, near: near.into(), far: "verbs".into(), json: false })
    }

    #[test]
    fn the_choice_stands_first_with_its_steps_and_its_distance_from_the_bound() {
        let explanation = asked(["bcast", "1M", "1000", "1000"], "shm").expect("an explanation");
        let text = table(&told(&explanation));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "bcast of 1048576 bytes, 1000 ranks, 1000 nodes (shm within, verbs between)");
        assert!(lines[4].starts_with("| circulant"), "{text}");
        assert!(text.contains("circulant is taken; no algorithm by messages is faster than"), "{text}");
        let json = serde_json::to_value(told(&explanation)).expect("JSON");
        assert_eq!(json["algorithms"][0]["name"], "circulant");
        assert!(json["algorithms"][0]["pieces"].as_u64().expect("pieces") > 10);
        assert!(json["algorithms"][3].get("pieces").is_none());
    }

    #[test]
    fn a_wrong_word_is_named_with_what_is_allowed() {
        let fault = |words, near| asked(words, near).expect_err("refused").to_string();
        assert!(fault(["bcost", "8", "2", "1"], "shm").contains("reduce_scatter"));
        assert!(fault(["bcast", "8x", "2", "1"], "shm").contains("8x"));
        assert!(fault(["bcast", "8", "2", "3"], "shm").contains("from 1 to 2"));
        assert!(fault(["bcast", "8", "2", "1"], "shn").contains("ofi/efa"));
    }
}
