//! `verbs-resources`: queue pairs and memory of the netmod `verbs` by job size, as computed by
//! `netmod_verbs::resources`.

use ch3_shim::Config;
use comfy_table::CellAlignment;
use netmod_verbs::resources::{Job, QueuePairs, Resources, Sizes, Transport};
use serde::Serialize;

use crate::cli::ResourcesArgs;
use crate::error::{During, Failure, Result};
use crate::report::{grouped, line, plain_table};

/// Maximum number of ranks of a job.
const MOST_RANKS: u64 = 1 << 20;

/// A row of the table.
#[derive(Debug, Serialize)]
struct Row {
    test: &'static str,
    nodes: u32,
    ranks_per_node: u32,
    ranks: u64,
    transport: &'static str,
    /// Peers of a process.
    peers: u64,
    /// Queue pairs of a process, with its share of the node's.
    qps_per_process: u64,
    qps_per_node: u64,
    /// Queue pairs of RC divided by those of this transport.
    rc_has_times: f64,
    cq_entries_per_process: u64,
    receives_per_process: u64,
    receive_bytes_per_process: u64,
    bounce_bytes_per_process: u64,
    queue_bytes_per_process: u64,
    bytes_per_node: u64,
    /// Kind of devices on which this transport has carried messages.
    proven_on: &'static str,
}

fn row(transport: Transport, job: Job, peers: u64, sizes: &Sizes) -> Row {
    let qps = QueuePairs::most(transport, job, peers);
    let resources = Resources::of(transport, qps, sizes);
    let of_process = |transport| QueuePairs::most(transport, job, peers).per_process(job.per_node);
    let own = of_process(transport);
    let bytes = resources.registered_bytes() + resources.queue_bytes;
    Row {
        test: "verbs-resources",
        nodes: job.nodes,
        ranks_per_node: job.per_node,
        ranks: job.ranks(),
        transport: transport.name(),
        peers: peers.min(job.peers()),
        qps_per_process: own,
        qps_per_node: qps.per_node(job.per_node),
        rc_has_times: if own == 0 { 1.0 } else { of_process(Transport::Rc) as f64 / own as f64 },
        cq_entries_per_process: resources.cq_entries,
        receives_per_process: resources.receives,
        receive_bytes_per_process: resources.receive_bytes,
        bounce_bytes_per_process: resources.bounce_bytes,
        queue_bytes_per_process: resources.queue_bytes,
        bytes_per_node: bytes * u64::from(job.per_node),
        proven_on: match transport {
            Transport::Rc => "nothing: for comparison",
            Transport::RcSrq => "devices, simulated devices",
            Transport::Xrc => "simulated devices",
        },
    }
}

/// Formats bytes with the unit that gives the fewest digits: `1.5 GiB`.
fn bytes(v: u64) -> String {
    let v = v as f64;
    let (value, unit) = match v {
        v if v >= f64::from(1 << 30) * 1024.0 => (v / f64::from(1 << 30) / 1024.0, "TiB"),
        v if v >= f64::from(1 << 30) => (v / f64::from(1 << 30), "GiB"),
        v if v >= f64::from(1 << 20) => (v / f64::from(1 << 20), "MiB"),
        v => (v / 1024.0, "KiB"),
    };
    if value >= 100.0 { format!("{} {unit}", grouped(value)) } else { format!("{value:.1} {unit}") }
}

fn text(rows: &[Row], job: &ResourcesArgs) -> String {
    let mut table = plain_table(&[
        "nodes",
        "ranks",
        "transport",
        "QPs",
        "vs RC",
        "QPs per node",
        "CQ entries",
        "receives",
        "receive buffers",
        "queues",
        "memory per node",
    ]);
    for r in rows {
        let (less, times) =
            if r.rc_has_times < 1.0 { ("", 1.0 / r.rc_has_times) } else { ("1/", r.rc_has_times) };
        let times = match times {
            1.0 => "1".into(),
            t if (t - t.round()).abs() < 0.05 => format!("{less}{}", grouped(t)),
            t => format!("{less}{t:.1}"),
        };
        table.add_row([
            format!("{} x {}", grouped(r.nodes.into()), r.ranks_per_node),
            grouped(r.ranks as f64),
            r.transport.to_owned(),
            grouped(r.qps_per_process as f64),
            times,
            grouped(r.qps_per_node as f64),
            grouped(r.cq_entries_per_process as f64),
            grouped(r.receives_per_process as f64),
            bytes(r.receive_bytes_per_process),
            bytes(r.queue_bytes_per_process),
            bytes(r.bytes_per_node),
        ]);
    }
    for (i, column) in table.column_iter_mut().enumerate() {
        if i != 2 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let near = if job.near { "by verbs, too" } else { "by shared memory" };
    let peers = match job.peers {
        None => "all others".into(),
        Some(n) => format!("{} others, each on another node if there are enough nodes", grouped(n as f64)),
    };
    format!(
        "{table}\n\
         Values are per process and for one port, unless the column says otherwise. Ranks of the same node talk {near}.\n\
         Pairs connect when they first talk. The values are for ranks that have each talked to {peers}.\n\
         RC: each queue pair has receives for a whole window, without a shared receive queue.\n\
         RC + SRQ: the default.\n\
         XRC: a queue pair to each node, and a share of the node's receiving queue pairs.\n\
              Its data path has been tested on simulated devices only.\n\
         Queues: approximate memory of their entries in the device, with the sizes of mlx5.\n"
    )
}

/// Prints the table.
///
/// # Errors
/// If the configuration is wrong, or a job too large.
pub(crate) fn run(args: &ResourcesArgs) -> Result<()> {
    let cfg = Config::from_env().during("read the configuration")?;
    let sizes = Sizes::of_config(&cfg.verbs);
    let mut rows = Vec::new();
    for nodes in args.nodes.iter().copied() {
        for per_node in args.ranks_per_node.iter().copied() {
            let job = Job { nodes, per_node, near: args.near };
            if job.ranks() > MOST_RANKS {
                return Err(Failure::new(format!(
                    "{nodes} nodes of {per_node} ranks: that is more than {MOST_RANKS} ranks; give fewer nodes or ranks per node"
                )));
            }
            let peers = args.peers.unwrap_or(u64::MAX);
            rows.extend(Transport::ALL.map(|transport| row(transport, job, peers, &sizes)));
        }
    }
    let text = if args.json { rows.iter().map(line).collect() } else { text(&rows, args) };
    crate::emit(&text)
}
