//! Configuration: typed values from `NETMOD` and `NETMOD_*` environment variables, each with its
//! origin.
//!
//! One table below declares every variable: field, type, default, name, accepted values, meaning.
//! Fields are read directly, also by hot code; [`Config::set`] changes them, checks the value and
//! records the origin. A netmod gets its part, such as [`TcpConfig`], and never reads the
//! environment.

mod error;
#[cfg(test)]
mod tests;
mod value;

use core::time::Duration;

pub use error::{ConfigError, ConfigWarning};
pub use value::{Kind, PortRange, SPIN_FEW, SPIN_MANY, Setting, Spin};

/// The origin of a value. Later ones take precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The built-in default.
    Default,
    /// The environment.
    Env,
    /// [`Config::set`].
    Program,
}

impl core::fmt::Display for Origin {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(match self {
            Origin::Default => "default",
            Origin::Env => "environment",
            Origin::Program => "program",
        })
    }
}

/// A variable with its documentation and value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// Value, in the form in which it can be set.
    pub value: String,
    /// Origin of the value.
    pub origin: Origin,
    /// Meaning, in one line.
    pub meaning: &'static str,
    /// Default, in the same form as the value.
    pub default: String,
    /// Accepted values.
    pub kind: Kind,
}

/// A row of the table.
struct Variable {
    name: &'static str,
    kind: Kind,
    meaning: &'static str,
    show: fn(&Config, Kind) -> String,
    /// Sets the value; returns false and changes nothing if the text is not accepted.
    set: fn(&mut Config, Kind, &str) -> bool,
}

/// Generates the structs and [`VARIABLES`] from one table.
///
/// Each row is `field: type = default, "NAME", kind, "meaning";`
macro_rules! config_table {
    (
        $( $f:ident : $t:ty = $d:expr, $name:literal, $kind:expr, $doc:literal; )*
        $(
            #[doc = $gdoc:literal]
            $g:ident : $group:ident {
                $( $gf:ident : $gt:ty = $gd:expr, $gname:literal, $gkind:expr, $gmeaning:literal; )*
            }
        )*
    ) => {
        /// The whole configuration. Read its fields; change them with [`Config::set`].
        #[derive(Clone, Debug, PartialEq)]
        pub struct Config {
            $( #[doc = concat!("`", $name, "`: ", $doc, ".")] pub $f: $t, )*
            $( #[doc = $gdoc] pub $g: $group, )*
            /// Origins, by index in [`VARIABLES`].
            origins: [Origin; VARIABLES.len()],
        }

        impl Default for Config {
            fn default() -> Config {
                Config {
                    $( $f: $d, )*
                    $( $g: $group::default(), )*
                    origins: [Origin::Default; VARIABLES.len()],
                }
            }
        }

        $(
            #[doc = $gdoc]
            #[derive(Clone, Debug, PartialEq)]
            pub struct $group {
                $( #[doc = concat!("`", $gname, "`: ", $gmeaning, ".")] pub $gf: $gt, )*
            }

            impl Default for $group {
                fn default() -> $group {
                    $group { $( $gf: $gd, )* }
                }
            }
        )*

        static VARIABLES: &[Variable] = &[
            $( Variable {
                name: $name,
                kind: $kind,
                meaning: $doc,
                show: |c, kind| c.$f.show(kind),
                set: |c, kind, text| value::assign(&mut c.$f, kind, text),
            }, )*
            $( $( Variable {
                name: $gname,
                kind: $gkind,
                meaning: $gmeaning,
                show: |c, kind| c.$g.$gf.show(kind),
                set: |c, kind, text| value::assign(&mut c.$g.$gf, kind, text),
            }, )* )*
        ];
    };
}

const K: usize = 1 << 10;
const M: usize = 1 << 20;
const G: usize = 1 << 30;
const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
const CLOSE: Duration = Duration::from_secs(30);
const FAILURE_CHECK: Duration = Duration::from_secs(1);
const CONNECT: Duration = Duration::from_secs(30);
const DETECT: Duration = Duration::from_secs(15);
const RESUME: Duration = Duration::from_secs(10);
const HELLO: Duration = Duration::from_secs(10);
const BACKOFF: Duration = Duration::from_secs(1);

const PREFIX: &str = "NETMOD_";
/// Prefix of the variables that control the project's tests; they are no configuration.
const TESTS: &str = "NETMOD_TEST_";

config_table! {
    netmods: Vec<String> = vec!["shm".to_owned(), "tcp".to_owned()], "NETMOD", Kind::Names,
        "netmods that may be used, of shm, tcp, ofi and verbs, the preferred one first";
    eager_max: usize = 128 * K, "NETMOD_EAGER_MAX", Kind::Size { min: 0, max: G },
        "largest message, in bytes, that is sent without waiting for its receive; if it is not set, within a node less where a get is faster";
    eager_window: usize = M, "NETMOD_EAGER_WINDOW", Kind::Size { min: 16 * K, max: G },
        "bytes of eager messages, with 256 for each, that a peer may send before any are received; rank 0's value holds";
    rts_max: usize = 1024, "NETMOD_RTS_MAX", Kind::Count { min: 1, max: 1 << 20 },
        "messages that a peer may announce before any are received; rank 0's value holds";
    lmt: &'static str = "auto", "NETMOD_LMT", Kind::Choice(&["null", "put", "get", "coop", "auto"]),
        "how large messages move: null by the network, put or get from memory to memory where that is possible, coop through shared memory within a node, auto as is best";
    lmt_min: usize = 48 * K, "NETMOD_LMT_MIN", Kind::Size { min: 0, max: G },
        "smallest message, in bytes, for which auto takes another mode than null";
    unexpected_max: usize = 256 * M, "NETMOD_UNEXPECTED_MAX", Kind::Size { min: M, max: 1024 * G },
        "bytes that messages without a receive may take in all; rank 0's value holds";
    close_timeout: Duration = CLOSE, "NETMOD_CLOSE_TIMEOUT",
        Kind::Duration { min: Duration::ZERO, max: HOUR },
        "how long finalize waits for the peers to close";
    failure_check: Duration = FAILURE_CHECK, "NETMOD_FAILURE_CHECK",
        Kind::Duration { min: Duration::ZERO, max: HOUR },
        "how often a wait asks the process manager for failed ranks, and whether it is there; 0: never";
    spin: Spin = Spin::Auto, "NETMOD_SPIN", Kind::Spin,
        "polls in vain before a wait blocks; auto: few, and then some yields, if more would poll than the cores that they may use";
    progress: &'static str = "auto", "NETMOD_PROGRESS", Kind::Choice(&["auto", "off"]),
        "auto: a thread that sleeps until then sends within a millisecond what is staged while the program makes no call; off: no thread, and it leaves with the next call";
    pmi: &'static str = "auto", "NETMOD_PMI", Kind::Choice(&["auto", "1", "2", "pmix"]),
        "protocol to speak with the launcher; auto: what its environment offers";
    pmix_library: String = "libpmix.so.2".to_owned(), "NETMOD_PMIX_LIBRARY", Kind::Text { max: 4095 },
        "name or path of the library for launchers that speak PMIx";
    engines: usize = 1, "NETMOD_ENGINES", Kind::Count { min: 1, max: 64 },
        "engines of a process whose threads all send and receive (level Multiple)";
    log: String = "warn".to_owned(), "NETMOD_LOG", Kind::Text { max: 1024 },
        "which diagnostics are printed, as a filter of the crate tracing-subscriber";
    faults: String = String::new(), "NETMOD_FAULTS", Kind::Text { max: 1024 },
        "faults to inject, for tests, such as seed=7,drop=0.001,delay=1ms..5ms,split=0.5; empty: none";
    capture: String = String::new(), "NETMOD_CAPTURE", Kind::Text { max: 1024 },
        "where frames are captured, for netmod-perf decode: PREFIX-JOB-RANK-NETMOD.pcapng; empty: nowhere";
    capture_snap: usize = 64, "NETMOD_CAPTURE_SNAP", Kind::Size { min: 0, max: M },
        "bytes of each payload that a capture keeps";
    status: String = String::new(), "NETMOD_STATUS", Kind::Text { max: 255 },
        "folder of the sockets by which netmod-perf top asks running ranks; empty: none";
    status_signal: &'static str = "none", "NETMOD_STATUS_SIGNAL",
        Kind::Choice(&["none", "usr1", "usr2", "hup", "quit"]),
        "signal on which a rank writes its state to a file in NETMOD_STATUS or the temporary folder";

    /// Settings of the netmod `shm`.
    shm: ShmConfig {
        dir: String = "/dev/shm".to_owned(), "NETMOD_SHM_DIR", Kind::Text { max: 4000 },
            "folder, on a file system in memory, where the ranks of a node find their shared memory";
        ranks: usize = 0, "NETMOD_SHM_RANKS", Kind::Count { min: 0, max: 448 },
            "ranks that share memory in one folder, on whatever nodes the launcher sees them; 0: those of a node, as it says";
        joint: &'static str = "auto", "NETMOD_SHM_JOINT", Kind::Choice(&["auto", "on", "off"]),
            "whether a long message that its receiver reads is copied by both sides: on; off, by the receiver alone; auto: on if the node has a core for each that polls";
        register_max: usize = 0, "NETMOD_SHM_REGISTER_MAX", Kind::Size { min: 0, max: 1024 * G },
            "bytes that large messages may register at once for transfers between processes; more moves window by window; 0: any";
    }

    /// Settings of the netmod `tcp`.
    tcp: TcpConfig {
        interface: String = String::new(), "NETMOD_TCP_INTERFACE", Kind::Text { max: 255 },
            "interfaces to listen on and to publish: names, addresses or subnets, ! before those not wanted, such as eth*,!eth7,10.0.0.0/8; empty: all";
        speed: String = String::new(), "NETMOD_TCP_SPEED", Kind::Text { max: 255 },
            "Mb/s of interfaces that do not say it or say it wrong, such as eth0=25000,ens*=10000";
        rails: usize = 4, "NETMOD_TCP_RAILS", Kind::Count { min: 1, max: 8 },
            "pairs of interfaces that carry large messages to a peer at once; 1: never more than one";
        rail_ratio: usize = 4, "NETMOD_TCP_RAIL_RATIO", Kind::Count { min: 1, max: 1000 },
            "how many times as slow as the fastest pair of interfaces one may be that is used beside it";
        rails_loopback: usize = 0, "NETMOD_TCP_RAILS_LOOPBACK", Kind::Count { min: 0, max: 8 },
            "for tests: as many connections for large messages over the loopback interface, whatever the pairs are; 0 or 1: none";
        port_range: Option<PortRange> = None, "NETMOD_TCP_PORT_RANGE", Kind::Ports,
            "ports to listen on; empty: any";
        connect_timeout: Duration = CONNECT, "NETMOD_TCP_CONNECT_TIMEOUT",
            Kind::Duration { min: MS, max: HOUR },
            "how long to try to connect to a peer";
        hello_timeout: Duration = HELLO, "NETMOD_TCP_HELLO_TIMEOUT",
            Kind::Duration { min: MS, max: HOUR },
            "how long a handshake may take";
        backoff_min: Duration = MS, "NETMOD_TCP_BACKOFF_MIN",
            Kind::Duration { min: MS, max: HOUR },
            "pause after the first failed attempt to connect";
        backoff_max: Duration = BACKOFF, "NETMOD_TCP_BACKOFF_MAX",
            Kind::Duration { min: MS, max: HOUR },
            "longest pause between attempts to connect";
        detect: Duration = DETECT, "NETMOD_TCP_DETECT", Kind::Duration { min: Duration::ZERO, max: HOUR },
            "how long a connection's host may be silent before the connection counts as lost; 0: for ever";
        resume_timeout: Duration = RESUME, "NETMOD_TCP_RESUME_TIMEOUT",
            Kind::Duration { min: Duration::ZERO, max: HOUR },
            "how long to try to resume a lost connection before its peer counts as lost; 0: not at all";
        resume_local: bool = false, "NETMOD_TCP_RESUME_LOCAL", Kind::Bool,
            "resume lost connections within a node, over the loopback interface, too";
        ckpt_timeout: Duration = HOUR, "NETMOD_TCP_CKPT_TIMEOUT", Kind::Duration { min: MS, max: DAY },
            "how long a peer that is being checkpointed has to come back before it counts as lost";
        checksum: bool = false, "NETMOD_CHECKSUM", Kind::Bool,
            "check every byte on a connection with CRC32C; holds where both sides have it on";
        sndbuf: usize = 0, "NETMOD_TCP_SNDBUF", Kind::Size { min: 0, max: G },
            "send buffer of a socket in bytes; 0: the system's default";
        rcvbuf: usize = 0, "NETMOD_TCP_RCVBUF", Kind::Size { min: 0, max: G },
            "receive buffer of a socket in bytes; 0: the system's default";
        stage: usize = 16 * K, "NETMOD_TCP_STAGE", Kind::Size { min: K, max: M },
            "bytes of small messages that are gathered for one system call";
        rx_buffer: usize = 64 * K, "NETMOD_TCP_RX_BUFFER", Kind::Size { min: 4 * K, max: 16 * M },
            "bytes that one system call receives";
        hello_max: usize = 256, "NETMOD_TCP_HELLO_MAX", Kind::Count { min: 1, max: 65536 },
            "connections of strangers, in their handshake or refused, at once; at most a quarter of the descriptors";
    }

    /// Settings of the netmod `ofi`.
    ofi: OfiConfig {
        library: String = String::new(), "NETMOD_OFI_LIBRARY", Kind::Text { max: 4095 },
            "libfabric's file; empty: what the system calls libfabric.so.1";
        provider: String = String::new(), "NETMOD_OFI_PROVIDER", Kind::Text { max: 255 },
            "providers that may be used, the preferred one first, ! before those not wanted, such as tcp,verbs;ofi_rxm,!sockets; empty: any";
        domain: String = String::new(), "NETMOD_OFI_DOMAIN", Kind::Text { max: 255 },
            "domains that may be used: names or patterns, ! before those not wanted, such as mlx5_*,!mlx5_3; empty: any";
        domains: usize = 4, "NETMOD_OFI_DOMAINS", Kind::Count { min: 1, max: 16 },
            "domains (network cards) that a process opens at most";
        contexts: usize = 1, "NETMOD_OFI_CONTEXTS", Kind::Count { min: 1, max: 64 },
            "transmit and receive contexts that the engines of a process share in a scalable endpoint, where the provider has them";
        disable_sep: bool = false, "NETMOD_OFI_DISABLE_SEP", Kind::Bool,
            "use plain endpoints although the provider has scalable ones";
        frame: usize = 65 * K, "NETMOD_OFI_FRAME", Kind::Size { min: K, max: M },
            "largest libfabric message in bytes; more than that is sent in several";
        window: usize = 512 * K, "NETMOD_OFI_WINDOW", Kind::Size { min: 4 * K, max: 4 * M },
            "bytes of libfabric messages that a peer may have under way to this process";
        rx_memory: Option<usize> = None, "NETMOD_OFI_RX_MEMORY", Kind::AutoSize { min: 64 * K, max: G },
            "bytes of receive buffers of a domain; auto: 256K over shm, which must stay in a core's cache, 4M elsewhere";
        wait: &'static str = "auto", "NETMOD_OFI_WAIT", Kind::Choice(&["auto", "fd", "none"]),
            "what a blocked wait waits on: fd, a descriptor of libfabric's, which costs each message; none, where it looks again after short naps; auto: none if the node has a core for each that polls";
        register_max: usize = 0, "NETMOD_OFI_REGISTER_MAX", Kind::Size { min: 0, max: 1024 * G },
            "bytes that large messages may register at once; more moves window by window; 0: any";
        connect_timeout: Duration = CONNECT, "NETMOD_OFI_CONNECT_TIMEOUT",
            Kind::Duration { min: MS, max: HOUR },
            "how long to try to connect to a peer";
        detect: Duration = DETECT, "NETMOD_OFI_DETECT", Kind::Duration { min: Duration::ZERO, max: HOUR },
            "how long a peer that owes an answer may be silent before its host is asked whether it lives; 0: for ever";
        hello_max: usize = 256, "NETMOD_OFI_HELLO_MAX", Kind::Count { min: 1, max: 65536 },
            "handshakes of strangers in progress at once; at most a quarter of the descriptors";
    }

    /// Settings of the netmod `verbs`.
    verbs: VerbsConfig {
        library: String = String::new(), "NETMOD_VERBS_LIBRARY", Kind::Text { max: 4095 },
            "libibverbs's file; empty: what the system calls libibverbs.so.1";
        device: String = String::new(), "NETMOD_VERBS_DEVICE", Kind::Text { max: 255 },
            "devices and ports that may be used: names or patterns, ! before those not wanted, such as mlx5_*,!mlx5_3:2; empty: any";
        gid: String = String::new(), "NETMOD_VERBS_GID", Kind::Text { max: 15 },
            "place in the ports' tables of the GID that packets come from, or v1 or v2 for a version of RoCE; empty: the best one";
        ports: usize = 4, "NETMOD_VERBS_PORTS", Kind::Count { min: 1, max: 16 },
            "ports of devices that a process opens at most";
        frame: usize = 8 * K, "NETMOD_VERBS_FRAME", Kind::Size { min: K, max: M },
            "largest message of verbs in bytes; more than that is sent in several";
        window: usize = 256 * K, "NETMOD_VERBS_WINDOW", Kind::Size { min: 4 * K, max: 4 * M },
            "bytes of messages of verbs that a peer may have under way to this process";
        rx_memory: usize = 4 * M, "NETMOD_VERBS_RX_MEMORY", Kind::Size { min: 64 * K, max: G },
            "bytes of receive buffers of a port: who sends while the windows of all that send fit into it never has to repeat a message";
        xrc: bool = false, "NETMOD_VERBS_XRC", Kind::Bool,
            "one receiving queue pair for the processes of a node, by XRC, where both nodes' devices have it; proven on simulated devices only";
        register_max: usize = 0, "NETMOD_VERBS_REGISTER_MAX", Kind::Size { min: 0, max: 1024 * G },
            "bytes that large messages may register at once; more moves window by window; 0: any";
        connect_timeout: Duration = CONNECT, "NETMOD_VERBS_CONNECT_TIMEOUT",
            Kind::Duration { min: MS, max: HOUR },
            "how long to try to connect to a peer";
        detect: Duration = DETECT, "NETMOD_VERBS_DETECT", Kind::Duration { min: Duration::ZERO, max: HOUR },
            "how long a peer that owes an answer may be silent before its host is asked whether it lives; 0: for ever";
        hello_max: usize = 256, "NETMOD_VERBS_HELLO_MAX", Kind::Count { min: 1, max: 65536 },
            "handshakes of strangers in progress at once; at most a quarter of the descriptors";
    }
}

impl Config {
    /// Reads the configuration from the environment, with warnings.
    ///
    /// # Errors
    ///
    /// Fails if a variable's value is not accepted.
    pub fn from_env() -> Result<(Config, Vec<ConfigWarning>), ConfigError> {
        let mut found = Vec::new();
        for (name, value) in std::env::vars_os() {
            let Some(name) = name.to_str().filter(|name| is_ours(name)) else {
                continue;
            };
            let value =
                value.into_string().map_err(|_| ConfigError::NotUnicode { name: error::excerpt(name) })?;
            found.push((name.to_owned(), value));
        }
        Config::from_lookup(found)
    }

    /// Reads the configuration from names and values, as [`Config::from_env`] does.
    ///
    /// Names that are not `NETMOD` or `NETMOD_*`, and `NETMOD_TEST_*`, are skipped. If a name
    /// occurs twice, the last value counts.
    ///
    /// # Errors
    ///
    /// Fails if a variable's value is not accepted.
    pub fn from_lookup(
        vars: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(Config, Vec<ConfigWarning>), ConfigError> {
        let mut config = Config::default();
        let mut warnings = Vec::new();
        for (name, value) in vars {
            if !is_ours(&name) {
                continue;
            }
            match find(&name) {
                Some(i) => config.assign(i, &value, Origin::Env)?,
                None => warnings.push(ConfigWarning::unknown(&name)),
            }
        }
        config.check()?;
        Ok((config, warnings))
    }

    /// Sets a variable, with precedence over the environment. After an error nothing is changed.
    ///
    /// # Errors
    ///
    /// Fails if the name is unknown, or if the value is not accepted or contradicts another.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), ConfigError> {
        let i = find(name).ok_or_else(|| ConfigError::unknown(name))?;
        let mut changed = self.clone();
        changed.assign(i, value, Origin::Program)?;
        changed.check()?;
        *self = changed;
        Ok(())
    }

    /// Returns all variables in the order of the documentation.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        let default = Config::default();
        VARIABLES.iter().zip(self.origins).map(move |(var, origin)| Entry {
            name: var.name,
            value: (var.show)(self, var.kind),
            origin,
            meaning: var.meaning,
            default: (var.show)(&default, var.kind),
            kind: var.kind,
        })
    }

    /// Returns the origin of a variable's value; `None` if there is no such variable.
    pub fn origin(&self, name: &str) -> Option<Origin> {
        find(name).map(|i| self.origins[i])
    }

    /// Returns true if NETMOD_EAGER_MAX has its default, so that the cost of copies may decide what
    /// goes eagerly.
    pub fn leaves_eager_open(&self) -> bool {
        self.origin("NETMOD_EAGER_MAX") == Some(Origin::Default)
            && self.eager_max == Config::default().eager_max
    }

    fn assign(&mut self, i: usize, text: &str, origin: Origin) -> Result<(), ConfigError> {
        let var = &VARIABLES[i];
        if !(var.set)(self, var.kind, text) {
            return Err(ConfigError::value(var.name, text, var.kind));
        }
        self.origins[i] = origin;
        Ok(())
    }

    /// Checks conditions on several variables.
    fn check(&self) -> Result<(), ConfigError> {
        if self.tcp.backoff_min > self.tcp.backoff_max {
            return Err(ConfigError::Order {
                smaller: "NETMOD_TCP_BACKOFF_MIN",
                larger: "NETMOD_TCP_BACKOFF_MAX",
            });
        }
        Ok(())
    }
}

fn is_ours(name: &str) -> bool {
    name == "NETMOD" || (name.starts_with(PREFIX) && !name.starts_with(TESTS))
}

fn find(name: &str) -> Option<usize> {
    VARIABLES.iter().position(|var| var.name == name)
}
