//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Measures the netmods, each beside what the bare operating system gives.
///
/// Without a command it takes a tour of about a minute. Without a launcher it starts its own ranks;
/// under nmrun or mpiexec it measures between ranks 0 and 1 of the job.
#[derive(Clone, Debug, Parser)]
#[command(name = "netmod-perf", version, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) tour: TourArgs,
}

/// Commands.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    /// Latency: half of a message's round trip
    Lat(PairArgs),
    /// Bandwidth in one direction, with windows of messages
    Bw(WindowArgs),
    /// Bandwidth in both directions at once
    Bibw(WindowArgs),
    /// Rate of small messages
    Rate(RateArgs),
    /// Start all ranks, connect every pair, exchange, finalize
    Alltoall(AlltoallArgs),
    /// Barrier of all ranks
    Barrier(BarrierArgs),
    /// Patterns of MPI programs: ping-pong with computing, halo exchange, allreduce, many to one
    Programs(ProgramsArgs),
    /// Explain the choice of a collective operation's algorithm
    Coll(CollArgs),
    /// Many ranks flood one slow receiver
    Flood(FloodArgs),
    /// Cost of a VC: memory unused and connected, and latency beside many connections
    Connect(ConnectArgs),
    /// Cost of tag matching in long queues
    Match(MatchArgs),
    /// Pair the interfaces of two hosts, or time the pairing
    Pair(PairingArgs),
    /// Capabilities of this machine, the configuration, and limits that are too low
    Info(InfoArgs),
    /// Queue pairs and memory of the netmod verbs, by the size of a job
    VerbsResources(ResourcesArgs),
    /// Decode captures written by NETMOD_CAPTURE: one line per packet, and operations left open
    Decode(DecodeArgs),
    /// Show what the ranks of a running job do and wait for; the job needs NETMOD_STATUS=FOLDER
    Top(TopArgs),
    /// Print completions for a shell
    Completions(CompletionsArgs),
    /// Write the manual pages, one for each command
    Manual(ManualArgs),
}

/// Options of `completions`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Options of `manual`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ManualArgs {
    /// Folder for the pages
    pub(crate) folder: PathBuf,
}

/// Options of the tour.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TourArgs {
    /// Visit only this netmod
    #[arg(long, value_name = "NAME")]
    pub(crate) netmod: Option<String>,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a plot (SVG) of latency and bandwidth over message size, with their floors
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
    /// Measure very briefly, to show that all parts work
    #[arg(long, hide = true)]
    pub(crate) quick: bool,
}

/// Options common to all message tests.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct JobArgs {
    /// Netmod that carries the messages [default: the first of NETMOD]
    #[arg(long, value_name = "NAME")]
    pub(crate) netmod: Option<String>,
    /// Providers of libfabric for the netmod ofi, most preferred first [default:
    /// NETMOD_OFI_PROVIDER]
    #[arg(long, value_name = "LIST")]
    pub(crate) provider: Option<String>,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of tests between two ranks.
#[derive(Clone, Debug, Args)]
pub(crate) struct PairArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// Message sizes such as 8,1K,1M
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = message_size)]
    pub(crate) bytes: Vec<usize>,
    /// Rounds; the result is their median [default: as many as fit in 4 s]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) rounds: Option<u32>,
    /// Repetitions per round [default: as many as take some milliseconds]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iters: Option<u32>,
    /// Ranks to start; the first two measure, the others wait
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=1024))]
    pub(crate) ranks: u32,
    /// Mode of large messages: null, put, get, coop or auto [default: NETMOD_LMT]
    #[arg(long, value_name = "MODE")]
    pub(crate) lmt: Option<String>,
    /// Write a plot (SVG) of the results over message size, with their floors
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
}

/// Options of the tests with windows of messages.
#[derive(Clone, Debug, Args)]
pub(crate) struct WindowArgs {
    #[command(flatten)]
    pub(crate) pair: PairArgs,
    /// Messages in flight
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) window: u32,
}

/// Options of `rate`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RateArgs {
    #[command(flatten)]
    pub(crate) window: WindowArgs,
    /// Threads of each process that send or receive concurrently, each on its own communicator.
    /// Compared with one thread at the levels Multiple and Serialized
    #[arg(long, value_name = "N", conflicts_with = "plot", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) threads: Option<u32>,
    /// Engines that the threads' communicators are spread over; compared with one engine
    #[arg(long, value_name = "M", default_value_t = 1, requires = "threads",
        value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) engines: u32,
}

/// Options of `alltoall`.
#[derive(Clone, Debug, Args)]
pub(crate) struct AlltoallArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// Bytes from each rank to each other rank
    #[arg(long, value_name = "SIZE", default_value = "8", value_parser = message_size)]
    pub(crate) bytes: usize,
    /// Ranks to start
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=1024))]
    pub(crate) ranks: u32,
    /// Jobs to run one after another; the result is their median
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
}

/// Options of `barrier`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BarrierArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// Ranks to start
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=1024))]
    pub(crate) ranks: u32,
    /// Rounds; the result is their median
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rounds: u32,
    /// Barriers per round [default: as many as take 50 ms]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iters: Option<u32>,
}

/// Options of `programs`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ProgramsArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// Ranks to start: a power of two
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = power_of_two)]
    pub(crate) ranks: u32,
    /// Rounds of each program; the result is their median
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rounds: u32,
    /// Repetitions per round, without a warm-up [default: as many as take 10 ms]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iters: Option<u32>,
}

/// Options of `coll`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CollArgs {
    /// Operation, bytes of one rank's message, vector or block, ranks, and nodes, which have as
    /// many ranks each
    #[arg(long, required = true, num_args = 4, value_names = ["OP", "BYTES", "RANKS", "NODES"])]
    pub(crate) explain: Vec<String>,
    /// Path within a node, by the table of docs/collectives.md
    #[arg(long, value_name = "PATH", default_value = "shm")]
    pub(crate) near: String,
    /// Path between nodes
    #[arg(long, value_name = "PATH", default_value = "tcp")]
    pub(crate) far: String,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `flood`.
#[derive(Clone, Debug, Args)]
pub(crate) struct FloodArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// Message size in bytes
    #[arg(long, value_name = "SIZE", default_value = "8", value_parser = message_size)]
    pub(crate) bytes: usize,
    /// Ranks to start: all but one send
    #[arg(long, value_name = "N", default_value_t = 65, value_parser = clap::value_parser!(u32).range(2..=1024))]
    pub(crate) ranks: u32,
    /// Messages per sender, all in flight at once
    #[arg(long, value_name = "N", default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) messages: u32,
    /// Milliseconds before the slow receiver begins to receive
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u32).range(0..=60_000))]
    pub(crate) pause: u32,
}

/// Options of `connect`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConnectArgs {
    /// Netmod of the connections
    #[arg(long, value_name = "NAME", default_value = "tcp")]
    pub(crate) netmod: Option<String>,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
    /// Connect nothing: measure a device's memory in a job of that many ranks, with a VC to each
    #[arg(long, value_name = "RANKS", conflicts_with_all = ["connected", "latency"],
        value_parser = clap::value_parser!(u32).range(2..=16_777_216))]
    pub(crate) simulate: Option<u32>,
    /// Connections to one process
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub(crate) connected: u32,
    /// Measure the latency of 8 bytes beside the idle connections, too, compared with one
    /// connection
    #[arg(long)]
    pub(crate) latency: bool,
    /// Rounds of the latency measurement
    #[arg(long, value_name = "N", default_value_t = 101, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rounds: u32,
    /// Round trips per round
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) iters: u32,
}

/// Options of `match`.
#[derive(Clone, Debug, Args)]
pub(crate) struct MatchArgs {
    /// Numbers of posted receives
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "10,100,1000,10000,100000",
        value_parser = queue_length)]
    pub(crate) queue: Vec<usize>,
    /// Order in which messages arrive, relative to the receives
    #[arg(long, value_enum, default_value_t = MatchOrder::InOrder)]
    pub(crate) order: MatchOrder,
    /// Rounds; the result is their median
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rounds: u32,
    /// Messages per round
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iters: u32,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Order of arriving messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MatchOrder {
    /// The order of the receives
    InOrder,
    /// Uniformly random
    Random,
}

impl MatchOrder {
    /// Returns the name in the field `order`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            MatchOrder::InOrder => "in order",
            MatchOrder::Random => "random",
        }
    }
}

/// Options of `pair`.
#[derive(Clone, Debug, Args)]
pub(crate) struct PairingArgs {
    /// Pair this host with another one, from the record that `--export` wrote there
    #[arg(long, value_name = "FILE", conflicts_with_all = ["scenario", "bench", "export"])]
    pub(crate) peer: Option<PathBuf>,
    /// Write this host's published record of interfaces to a file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["scenario", "bench"])]
    pub(crate) export: Option<PathBuf>,
    /// Pair two hosts that a file describes, from each side, and print the result as JSON
    #[arg(long, value_name = "FILE", conflicts_with = "bench")]
    pub(crate) scenario: Option<PathBuf>,
    /// Interfaces of this host, such as eth*,!docker0,10.0.0.0/8 [default: NETMOD_TCP_INTERFACE]
    #[arg(long, value_name = "LIST", conflicts_with_all = ["scenario", "bench"])]
    pub(crate) interfaces: Option<netmod_matching::Filter>,
    /// Drop pairs known to be slower than the fastest one divided by this
    #[arg(long, value_name = "N", conflicts_with_all = ["scenario", "bench", "export"],
        value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) speed_ratio: Option<u32>,
    /// Maximum number of pairs
    #[arg(long, value_name = "N", conflicts_with_all = ["scenario", "bench", "export"],
        value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_rails: Option<u32>,
    /// Time the assignment for this many interfaces per side; without a value 4, 30, 150 and 300
    #[arg(long, value_name = "LIST", num_args = 0..=1, require_equals = false,
        default_missing_value = "4,30,150,300", value_delimiter = ',', value_parser = nics)]
    pub(crate) bench: Vec<usize>,
    /// Weights of the pairs
    #[arg(
        long,
        value_name = "LIST",
        value_enum,
        value_delimiter = ',',
        requires = "bench",
        default_value = "uniform,random,sparse,product"
    )]
    pub(crate) weights: Vec<WeightFamily>,
    /// Rounds; the result is their median
    #[arg(long, value_name = "N", default_value_t = 15, requires = "bench",
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rounds: u32,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Weights of the pairs when the assignment is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WeightFamily {
    /// All equal
    Uniform,
    /// Random, 32 bits
    Random,
    /// Random, for a quarter of the pairs
    Sparse,
    /// Row times column, so that all rows prefer the same columns
    Product,
}

impl WeightFamily {
    /// Returns the name in the field `kind`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            WeightFamily::Uniform => "uniform",
            WeightFamily::Random => "random",
            WeightFamily::Sparse => "sparse",
            WeightFamily::Product => "product",
        }
    }
}

/// Options of `info`.
#[derive(Clone, Debug, Args)]
pub(crate) struct InfoArgs {
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `verbs-resources`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ResourcesArgs {
    /// Nodes
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "2,10,100,1000",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) nodes: Vec<u32>,
    /// Ranks per node
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,64,100",
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) ranks_per_node: Vec<u32>,
    /// Ranks that each rank talks to [default: all]
    #[arg(long, value_name = "N")]
    pub(crate) peers: Option<u64>,
    /// Use verbs instead of shared memory within a node, too
    #[arg(long)]
    pub(crate) near: bool,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `decode`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct DecodeArgs {
    /// Captures of one or several ranks, merged by time
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Show only captures of these ranks
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) rank: Vec<u32>,
    /// Show only traffic with these ranks
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) peer: Vec<u32>,
    /// Show only VCs with this index (the number behind #)
    #[arg(long, value_name = "N")]
    pub(crate) vc: Option<u32>,
    /// Show only these types, such as Rts,Cts or down; `event` is all events, `control` the
    /// netmod's own frames
    #[arg(long = "type", value_name = "LIST", value_delimiter = ',')]
    pub(crate) kinds: Vec<String>,
    /// Print only the summary
    #[arg(long)]
    pub(crate) summary: bool,
    /// Print one JSON object per line, the summary last
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `top`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TopArgs {
    /// Folders, jobs (by the name that top shows) or processes [default: the folder in
    /// NETMOD_STATUS]
    #[arg(value_name = "FOLDER|JOB|PID")]
    pub(crate) targets: Vec<String>,
    /// Show only these ranks, in full detail
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) rank: Vec<u32>,
    /// Print once and exit
    #[arg(long)]
    pub(crate) once: bool,
    /// Print once, one JSON object per rank and line
    #[arg(long)]
    pub(crate) json: bool,
    /// Seconds between updates
    #[arg(long, value_name = "S", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) interval: u64,
    /// Milliseconds to wait for the ranks' answers
    #[arg(long, value_name = "MS", default_value_t = 1500, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub(crate) patience: u64,
}

/// Maximum message size in bytes.
const MAX_MESSAGE: usize = 1 << 30;
/// Maximum length of a queue.
const MAX_QUEUE: usize = 10_000_000;
/// Maximum number of interfaces per side.
const MAX_NICS: usize = 2000;

pub(crate) fn message_size(text: &str) -> Result<usize, String> {
    let text = text.trim().to_ascii_uppercase();
    let shift = match text.chars().last() {
        Some('K') => 10,
        Some('M') => 20,
        Some('G') => 30,
        _ => 0,
    };
    let digits = if shift > 0 { &text[..text.len() - 1] } else { &text[..] };
    let bytes = digits.parse::<usize>().ok().and_then(|n| n.checked_mul(1 << shift));
    bytes
        .filter(|b| (1..=MAX_MESSAGE).contains(b))
        .ok_or_else(|| "sizes are 1 to 1G bytes, such as 8, 64K or 1M".into())
}

fn power_of_two(text: &str) -> Result<u32, String> {
    let n = text.trim().parse::<u32>().ok().filter(|n| (2..=1024).contains(n) && n.is_power_of_two());
    n.ok_or_else(|| "ranks are a power of two, from 2 to 1024".into())
}

fn queue_length(text: &str) -> Result<usize, String> {
    let n = text.trim().parse::<usize>().ok().filter(|n| (1..=MAX_QUEUE).contains(n));
    n.ok_or_else(|| format!("queue lengths are 1 to {MAX_QUEUE}"))
}

fn nics(text: &str) -> Result<usize, String> {
    let n = text.trim().parse::<usize>().ok().filter(|n| (1..=MAX_NICS).contains(n));
    n.ok_or_else(|| format!("numbers of interfaces are 1 to {MAX_NICS}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes() {
        assert_eq!(message_size("8"), Ok(8));
        assert_eq!(message_size("1K"), Ok(1024));
        assert_eq!(message_size("64k"), Ok(65536));
        assert_eq!(message_size("1G"), Ok(1 << 30));
        for bad in ["", "K", "0", "-1", "2G", "1.5K", "8B", "99999999999999999999G"] {
            assert!(message_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_whole_line() {
        let cli = parse("netmod-perf rate --netmod tcp --bytes 8,1K --window 32 --rounds 3 --ranks 4 --json")
            .unwrap();
        let Some(Command::Rate(w)) = cli.command else { panic!("not rate: {cli:?}") };
        assert_eq!((w.threads, w.engines), (None, 1));
        let w = w.window;
        assert_eq!(w.pair.bytes, [8, 1024]);
        assert_eq!((w.window, w.pair.rounds, w.pair.ranks), (32, Some(3), 4));
        assert!(w.pair.job.json);
        assert_eq!(w.pair.job.netmod.as_deref(), Some("tcp"));
    }

    #[test]
    fn queues() {
        let cli = parse("netmod-perf match --queue 10,100000 --order random").unwrap();
        let Some(Command::Match(m)) = cli.command else { panic!("not match: {cli:?}") };
        assert_eq!(m.queue, [10, 100_000]);
        assert_eq!(m.order, MatchOrder::Random);
    }

    #[test]
    fn interfaces_to_time() {
        let pair = |line: &str| match parse(line).unwrap().command {
            Some(Command::Pair(p)) => p,
            other => panic!("not pair: {other:?}"),
        };
        let all = pair("netmod-perf pair --bench");
        assert_eq!((all.bench, all.weights.len()), (vec![4, 30, 150, 300], 4));
        let some = pair("netmod-perf pair --bench 7,8 --weights sparse --rounds 3 --json");
        assert_eq!((some.bench, some.weights, some.rounds), (vec![7, 8], vec![WeightFamily::Sparse], 3));
    }

    #[test]
    fn alone_it_is_the_tour() {
        let cli = parse("netmod-perf --json").unwrap();
        assert!(cli.command.is_none() && cli.tour.json);
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in [
            "lat --window 3",
            "rate --window 0",
            "rate --threads 0",
            "rate --engines 2",
            "lat --threads 2",
            "lat --bytes 0",
            "lat --ranks 1",
            "match --queue 0",
            "programs --ranks 3",
            "programs --ranks 1",
            "pair --bench 0",
            "pair --bench 4 --weights heavy",
            "fly",
            "lat --rounds 0",
        ] {
            assert!(parse(&format!("netmod-perf {bad}")).is_err(), "{bad}");
        }
    }
}
