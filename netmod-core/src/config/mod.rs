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
        "netmods to use, in order of preference: of shm, tcp, ofi and verbs";
    eager_max: usize = 128 * K, "NETMOD_EAGER_MAX", Kind::Size { min: 0, max: G },
        "largest eager message in bytes; if it is not set, less within a node where a get is faster";
    eager_window: usize = M, "NETMOD_EAGER_WINDOW", Kind::Size { min: 16 * K, max: G },
        "bytes of eager messages, counting 256 more for each, that a peer may send before any are received; rank 0's value applies";
    rts_max: usize = 1024, "NETMOD_RTS_MAX", Kind::Count { min: 1, max: 1 << 20 },
        "messages that a peer may announce before any are received; rank 0's value applies";
    lmt: &'static str = "auto", "NETMOD_LMT", Kind::Choice(&["null", "put", "get", "coop", "auto"]),
        "mode of large messages: null, as ordinary messages; put or get, one-sided where that is possible; coop, through shared memory within a node; auto, the best of these";
    lmt_min: usize = 48 * K, "NETMOD_LMT_MIN", Kind::Size { min: 0, max: G },
        "smallest message in bytes for which auto chooses a mode other than null";
    unexpected_max: usize = 256 * M, "NETMOD_UNEXPECTED_MAX", Kind::Size { min: M, max: 1024 * G },
        "bytes of all unexpected messages together; rank 0's value applies";
    close_timeout: Duration = CLOSE, "NETMOD_CLOSE_TIMEOUT",
        Kind::Duration { min: Duration::ZERO, max: HOUR },
        "time that finalize waits for the peers to close";
    failure_check: Duration = FAILURE_CHECK, "NETMOD_FAILURE_CHECK",
        Kind::Duration { min: Duration::ZERO, max: HOUR },
        "interval at which a wait asks the process manager for failed ranks, and checks that it lives; 0: never";
    spin: Spin = Spin::Auto, "NETMOD_SPIN", Kind::Spin,
        "empty polls before a wait blocks; auto: many, or few and some yields if polling would oversubscribe the cores";
    progress: &'static str = "auto", "NETMOD_PROGRESS", Kind::Choice(&["auto", "off"]),
        "progress while the program makes no call; auto: a helper thread sends staged messages within a millisecond; off: they wait for the next call";
    pmi: &'static str = "auto", "NETMOD_PMI", Kind::Choice(&["auto", "1", "2", "pmix"]),
        "protocol with the launcher; auto: the one that the environment offers";
    pmix_library: String = "libpmix.so.2".to_owned(), "NETMOD_PMIX_LIBRARY", Kind::Text { max: 4095 },
        "name or path of the library for launchers that speak PMIx";
    engines: usize = 1, "NETMOD_ENGINES", Kind::Count { min: 1, max: 64 },
        "engines of a process at thread level Multiple";
    log: String = "warn".to_owned(), "NETMOD_LOG", Kind::Text { max: 1024 },
        "diagnostics to print, as a filter of the crate tracing-subscriber";
    faults: String = String::new(), "NETMOD_FAULTS", Kind::Text { max: 1024 },
        "faults to inject, for tests, such as seed=7,drop=0.001,delay=1ms..5ms,split=0.5; empty: none";
    capture: String = String::new(), "NETMOD_CAPTURE", Kind::Text { max: 1024 },
        "prefix of capture files for netmod-perf decode, PREFIX-JOB-RANK-NETMOD.pcapng; empty: no capture";
    capture_snap: usize = 64, "NETMOD_CAPTURE_SNAP", Kind::Size { min: 0, max: M },
        "bytes of each payload that a capture keeps";
    status: String = String::new(), "NETMOD_STATUS", Kind::Text { max: 255 },
        "folder of the sockets that netmod-perf top connects to; empty: none";
    status_signal: &'static str = "none", "NETMOD_STATUS_SIGNAL",
        Kind::Choice(&["none", "usr1", "usr2", "hup", "quit"]),
        "signal that makes a rank write its state to a file in NETMOD_STATUS or the temporary folder";

    /// Settings of the netmod `shm`.
    shm: ShmConfig {
        dir: String = "/dev/shm".to_owned(), "NETMOD_SHM_DIR", Kind::Text { max: 4000 },
            "folder of the shared memory files of a node's ranks, on a file system in memory";
        ranks: usize = 0, "NETMOD_SHM_RANKS", Kind::Count { min: 0, max: 448 },
            "consecutive ranks that share memory in one folder, whatever nodes the launcher reports; 0: those of a node";
        joint: &'static str = "auto", "NETMOD_SHM_JOINT", Kind::Choice(&["auto", "on", "off"]),
            "copying of a long message in mode get; on: by both sides; off: by the receiver alone; auto: on if there is a core for each polling thread";
        register_max: usize = 0, "NETMOD_SHM_REGISTER_MAX", Kind::Size { min: 0, max: 1024 * G },
            "bytes that large messages may register at once; more moves window by window; 0: no limit";
    }

    /// Settings of the netmod `tcp`.
    tcp: TcpConfig {
        interface: String = String::new(), "NETMOD_TCP_INTERFACE", Kind::Text { max: 255 },
            "interfaces to listen on and to publish: names, addresses or subnets, with ! to exclude, such as eth*,!eth7,10.0.0.0/8; empty: all";
        speed: String = String::new(), "NETMOD_TCP_SPEED", Kind::Text { max: 255 },
            "speeds in Mb/s of interfaces that report none or a wrong one, such as eth0=25000,ens*=10000";
        rails: usize = 4, "NETMOD_TCP_RAILS", Kind::Count { min: 1, max: 8 },
            "most rails: pairs of interfaces that carry large messages to a peer at once";
        rail_ratio: usize = 4, "NETMOD_TCP_RAIL_RATIO", Kind::Count { min: 1, max: 1000 },
            "largest ratio of speeds between the fastest pair of interfaces and another one that is used beside it";
        rails_loopback: usize = 0, "NETMOD_TCP_RAILS_LOOPBACK", Kind::Count { min: 0, max: 8 },
            "for tests: rails over the loopback interface, whatever the pairs are; 0 or 1: none";
        port_range: Option<PortRange> = None, "NETMOD_TCP_PORT_RANGE", Kind::Ports,
            "ports to listen on; empty: any";
        connect_timeout: Duration = CONNECT, "NETMOD_TCP_CONNECT_TIMEOUT",
            Kind::Duration { min: MS, max: HOUR },
            "time limit for connecting to a peer";
        hello_timeout: Duration = HELLO, "NETMOD_TCP_HELLO_TIMEOUT",
            Kind::Duration { min: MS, max: HOUR },
            "time limit of a handshake";
        backoff_min: Duration = MS, "NETMOD_TCP_BACKOFF_MIN",
            Kind::Duration { min: MS, max: HOUR },
            "pause after the first failed attempt to connect";
        backoff_max: Duration = BACKOFF, "NETMOD_TCP_BACKOFF_MAX",
            Kind::Duration { min: MS, max: HOUR },
            "longest pause between attempts to connect";
        detect: Duration = DETECT, "NETMOD_TCP_DETECT", Kind::Duration { min: Duration::ZERO, max: HOUR },
            "silence of a peer's host after which a connection is lost; 0: never";
        resume_timeout: Duration = RESUME, "NETMOD_TCP_RESUME_TIMEOUT",
            Kind::Duration { min: Duration::ZERO, max: HOUR },
            "time limit for resuming a lost connection, after which its peer is lost; 0: no resumption";
        resume_local: bool = false, "NETMOD_TCP_RESUME_LOCAL", Kind::Bool,
            "resumes lost connections within a node, over the loopback interface, too";
        ckpt_timeout: Duration = HOUR, "NETMOD_TCP_CKPT_TIMEOUT", Kind::Duration { min: MS, max: DAY },
            "time limit for a checkpointed peer to return, after which it is lost";
        checksum: bool = false, "NETMOD_CHECKSUM", Kind::Bool,
            "checks every byte on a connection with CRC32C, if both sides have it on";
        sndbuf: usize = 0, "NETMOD_TCP_SNDBUF", Kind::Size { min: 0, max: G },
            "send buffer of a socket in bytes; 0: the system's default";
        rcvbuf: usize = 0, "NETMOD_TCP_RCVBUF", Kind::Size { min: 0, max: G },
            "receive buffer of a socket in bytes; 0: the system's default";
        stage: usize = 16 * K, "NETMOD_TCP_STAGE", Kind::Size { min: K, max: M },
            "bytes of small messages that are staged for one system call";
        rx_buffer: usize = 64 * K, "NETMOD_TCP_RX_BUFFER", Kind::Size { min: 4 * K, max: 16 * M },
            "most bytes that one system call receives";
        hello_max: usize = 256, "NETMOD_TCP_HELLO_MAX", Kind::Count { min: 1, max: 65536 },
            "most connections of unauthenticated peers at once, in their handshake or refused; at most a quarter of the descriptors";
    }

    /// Settings of the netmod `ofi`.
    ofi: OfiConfig {
        library: String = String::new(), "NETMOD_OFI_LIBRARY", Kind::Text { max: 4095 },
            "file of libfabric; empty: the system's libfabric.so.1";
        provider: String = String::new(), "NETMOD_OFI_PROVIDER", Kind::Text { max: 255 },
            "providers to use, in order of preference, with ! to exclude, such as tcp,verbs;ofi_rxm,!sockets; empty: any";
        domain: String = String::new(), "NETMOD_OFI_DOMAIN", Kind::Text { max: 255 },
            "domains to use: names or patterns, with ! to exclude, such as mlx5_*,!mlx5_3; empty: any";
        domains: usize = 4, "NETMOD_OFI_DOMAINS", Kind::Count { min: 1, max: 16 },
            "most domains (network cards) that a process opens";
        contexts: usize = 1, "NETMOD_OFI_CONTEXTS", Kind::Count { min: 1, max: 64 },
            "transmit and receive contexts of a scalable endpoint that a process's engines share, where the provider has them";
        disable_sep: bool = false, "NETMOD_OFI_DISABLE_SEP", Kind::Bool,
            "uses plain endpoints even if the provider has scalable ones";
        frame: usize = 65 * K, "NETMOD_OFI_FRAME", Kind::Size { min: K, max: M },
            "largest libfabric message in bytes; a larger one is sent in several";
        window: usize = 512 * K, "NETMOD_OFI_WINDOW", Kind::Size { min: 4 * K, max: 4 * M },
            "bytes of libfabric messages that a peer may have in flight to this process";
        rx_memory: Option<usize> = None, "NETMOD_OFI_RX_MEMORY", Kind::AutoSize { min: 64 * K, max: G },
            "bytes of receive buffers per domain; auto: 256K over shm, which stays in a core's cache, 4M elsewhere";
        wait: &'static str = "auto", "NETMOD_OFI_WAIT", Kind::Choice(&["auto", "fd", "none"]),
            "method of a blocked wait; fd: a descriptor of libfabric, at a cost per message; none: short sleeps between polls; auto: none if there is a core for each polling thread";
        register_max: usize = 0, "NETMOD_OFI_REGISTER_MAX", Kind::Size { min: 0, max: 1024 * G },
            "bytes that large messages may register at once; more moves window by window; 0: no limit";
        connect_timeout: Duration = CONNECT, "NETMOD_OFI_CONNECT_TIMEOUT",
            Kind::Duration { min: MS, max: HOUR },
            "time limit for connecting to a peer";
        detect: Duration = DETECT, "NETMOD_OFI_DETECT", Kind::Duration { min: Duration::ZERO, max: HOUR },
            "silence of a peer with outstanding acknowledgements after which its host is asked whether it lives; 0: never";
        hello_max: usize = 256, "NETMOD_OFI_HELLO_MAX", Kind::Count { min: 1, max: 65536 },
            "most handshakes of unauthenticated peers at once; at most a quarter of the descriptors";
    }

    /// Settings of the netmod `verbs`.
    verbs: VerbsConfig {
        library: String = String::new(), "NETMOD_VERBS_LIBRARY", Kind::Text { max: 4095 },
            "file of libibverbs; empty: the system's libibverbs.so.1";
        device: String = String::new(), "NETMOD_VERBS_DEVICE", Kind::Text { max: 255 },
            "devices and ports to use: names or patterns, with ! to exclude, such as mlx5_*,!mlx5_3:2; empty: any";
        gid: String = String::new(), "NETMOD_VERBS_GID", Kind::Text { max: 15 },
            "index of the source GID in the ports' tables, or v1 or v2 for a version of RoCE; empty: the best one";
        ports: usize = 4, "NETMOD_VERBS_PORTS", Kind::Count { min: 1, max: 16 },
            "most ports of devices that a process opens";
        frame: usize = 8 * K, "NETMOD_VERBS_FRAME", Kind::Size { min: K, max: M },
            "largest verbs message in bytes; a larger one is sent in several";
        window: usize = 256 * K, "NETMOD_VERBS_WINDOW", Kind::Size { min: 4 * K, max: 4 * M },
            "bytes of verbs messages that a peer may have in flight to this process";
        rx_memory: usize = 4 * M, "NETMOD_VERBS_RX_MEMORY", Kind::Size { min: 64 * K, max: G },
            "bytes of receive buffers per port; no message is retransmitted while the windows of all senders fit";
        xrc: bool = false, "NETMOD_VERBS_XRC", Kind::Bool,
            "one receiving queue pair for all processes of a node, by XRC, if both nodes' devices have it; tested on simulated devices only";
        register_max: usize = 0, "NETMOD_VERBS_REGISTER_MAX", Kind::Size { min: 0, max: 1024 * G },
            "bytes that large messages may register at once; more moves window by window; 0: no limit";
        connect_timeout: Duration = CONNECT, "NETMOD_VERBS_CONNECT_TIMEOUT",
            Kind::Duration { min: MS, max: HOUR },
            "time limit for connecting to a peer";
        detect: Duration = DETECT, "NETMOD_VERBS_DETECT", Kind::Duration { min: Duration::ZERO, max: HOUR },
            "silence of a peer with outstanding acknowledgements after which its host is asked whether it lives; 0: never";
        hello_max: usize = 256, "NETMOD_VERBS_HELLO_MAX", Kind::Count { min: 1, max: 65536 },
            "most handshakes of unauthenticated peers at once; at most a quarter of the descriptors";
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
