//! `lat`, `bw`, `bibw` and `rate`: one test between two ranks, from the command line to the printed
//! result.

use ch3_shim::Config;
use ch3_shim::Device;
use netmod_verbs::Setup;

use crate::cli::PairArgs;
use crate::error::{Failure, Result};
use crate::floor::{self, Medium, pingpong};
use crate::launch::{self, Choice, Joined, Role};
use crate::measure::{Effort, Pair, Test, measure};
use crate::progress::Progress;
use crate::report::{Row, rounded};
use crate::{fail_as_rank, plot, print};

/// Default duration of a test, in seconds.
const SECONDS: f64 = 4.0;
/// Round trips of an external ping-pong program.
const ROUND_TRIPS: usize = 1000;

/// Kind of test, which determines its sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Small and medium messages.
    Latency,
    /// Large messages.
    Bandwidth,
    /// The smallest messages.
    Rate,
}

impl Kind {
    /// Returns the default message sizes.
    pub(crate) fn bytes(self, medium: Medium) -> &'static [usize] {
        match self {
            Kind::Latency => &[8, 1 << 10, 8 << 10],
            // Includes a size beyond all caches, where that makes a difference.
            Kind::Bandwidth if medium == Medium::Memory => &[64 << 10, 1 << 20, 4 << 20, 64 << 20],
            Kind::Bandwidth => &[64 << 10, 1 << 20, 4 << 20],
            Kind::Rate => &[8],
        }
    }

    /// Returns the message sizes of a curve.
    pub(crate) fn sweep(self) -> &'static [usize] {
        match self {
            Kind::Latency => &[
                1,
                8,
                32,
                128,
                512,
                1 << 10,
                2 << 10,
                4 << 10,
                8 << 10,
                16 << 10,
                64 << 10,
                256 << 10,
                1 << 20,
            ],
            Kind::Bandwidth => {
                &[64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20, 4 << 20]
            }
            Kind::Rate => &[1, 8, 16, 64, 256, 1 << 10, 4 << 10],
        }
    }
}

/// Runs one rank: ranks 0 and 1 measure, the others go to finalize and wait there. Rank 0 returns
/// the rows.
///
/// # Errors
/// If the job cannot be joined or left. A failure in between aborts the job.
pub(crate) fn as_rank(
    choice: Choice<'_>,
    work: impl FnOnce(&mut Pair<'_>) -> Result<Vec<Row>>,
) -> Result<Option<Vec<Row>>> {
    let Joined { mut dev, crowded } = launch::join(choice)?;
    let rank = dev.rank();
    match between(&mut dev, crowded, work) {
        Ok(rows) => {
            dev.finalize()?;
            Ok((rank == 0).then_some(rows))
        }
        Err(e) => fail_as_rank(dev, &e),
    }
}

fn between(
    dev: &mut Device,
    crowded: bool,
    work: impl FnOnce(&mut Pair<'_>) -> Result<Vec<Row>>,
) -> Result<Vec<Row>> {
    if dev.size() < 2 {
        return Err(Failure::new(
            "this job has one rank, and the test needs two; start it with -n 2, or without a launcher",
        ));
    }
    if dev.rank() > 1 {
        return Ok(Vec::new());
    }
    let mut pair = Pair::new(dev, crowded)?;
    let rows = work(&mut pair)?;
    pair.sync()?;
    Ok(rows)
}

/// Adds the result of the system's `fi_pingpong` for the same providers, if it is installed.
fn beside_fi_pingpong(rows: &mut [Row], iters: Option<u32>) {
    let another = std::env::var_os(libfabric_sys::Library::VARIABLE).is_some_and(|v| !v.is_empty());
    if another || !pingpong::is_installed(pingpong::FI) {
        return;
    }
    let iters = iters.map_or(ROUND_TRIPS, |n| (n as usize).clamp(10, ROUND_TRIPS));
    for row in rows {
        let (Some(provider), Some(bytes)) = (&row.provider, row.bytes) else { continue };
        match pingpong::over_provider(provider, bytes, iters) {
            Ok(us) => row.fi_pingpong = Some(rounded(us)),
            Err(why) => eprintln!("netmod-perf: fi_pingpong -p '{provider}' -e rdm -S {bytes}: {why}"),
        }
    }
}

/// Adds the result of `ibv_rc_pingpong` for the port that the netmod `verbs` prefers, if it is
/// installed.
fn beside_ibv_pingpong(rows: &mut [Row], iters: Option<u32>) {
    let over_verbs = |row: &&mut Row| row.netmod.as_deref() == Some(netmod_verbs::NAME);
    let mut rows = rows.iter_mut().filter(over_verbs).peekable();
    if rows.peek().is_none() || !pingpong::is_installed(pingpong::IBV) {
        return;
    }
    let cfg = Config::from_env().map(|cfg| cfg.verbs).unwrap_or_default();
    let port = floor::verbs::first_port(&Setup::here(&cfg))
        .map_err(|e| e.to_string())
        .and_then(|port| Ok((port.gid.clone().map_err(|e| e.to_string())?.0, port)));
    let iters = iters.map_or(ROUND_TRIPS, |n| (n as usize).clamp(10, ROUND_TRIPS));
    for row in rows {
        let Some(bytes) = row.bytes else { continue };
        let said = port
            .clone()
            .and_then(|(gid, port)| pingpong::over_verbs((&port.device, port.port), gid.index, bytes, iters));
        match said {
            Ok(us) => row.ibv_rc_pingpong = Some(rounded(us)),
            Err(why) => eprintln!("netmod-perf: ibv_rc_pingpong -s {bytes}: {why}"),
        }
    }
}

/// Runs a test as the command line says.
///
/// # Errors
/// What failed, and in which rank.
pub(crate) fn run(test: &dyn Test, kind: Kind, args: &PairArgs) -> Result<()> {
    let rows = match launch::role()? {
        Role::Parent => {
            let mut rows = launch::run_job(args.ranks, None)?.rows;
            if kind == Kind::Latency {
                beside_fi_pingpong(&mut rows, args.iters);
                beside_ibv_pingpong(&mut rows, args.iters);
            }
            rows
        }
        Role::Rank(mut sink) => {
            let choice = Choice { lmt: args.lmt.as_deref(), ..(&args.job).into() };
            let rows = as_rank(choice, |pair| {
                let bytes = match (&args.bytes[..], &args.plot) {
                    ([], None) => kind.bytes(pair.bare.medium()).to_vec(),
                    ([], Some(_)) => kind.sweep().to_vec(),
                    (given, _) => given.to_vec(),
                };
                let effort = Effort {
                    // A curve needs some rounds for each of its points.
                    seconds: SECONDS.max(bytes.len() as f64),
                    bytes,
                    rounds: args.rounds.map(|n| n as usize),
                    iters: args.iters.map(|n| n as usize),
                };
                let progress = if pair.lead { Progress::bar(effort.seconds) } else { Progress::silent() };
                measure(pair, test, &effort, &progress)
            })?;
            match rows {
                Some(rows) if !sink.deliver(&rows)? => rows,
                _ => return Ok(()),
            }
        }
    };
    if let Some(file) = &args.plot {
        plot::draw(file, &rows)?;
    }
    print(&rows, args.job.json)
}
