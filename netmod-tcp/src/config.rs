//! Settings of the netmod `tcp`.

use core::time::Duration;

use netmod_core::config::units::{G, HOUR, K, M, MS};
use netmod_core::config::{ConfigError, Kind, PortRange};
use netmod_core::settings;

const CONNECT: Duration = Duration::from_secs(30);
const DETECT: Duration = Duration::from_secs(15);
const RESUME: Duration = Duration::from_secs(10);
const HELLO: Duration = Duration::from_secs(10);
const BACKOFF: Duration = Duration::from_secs(1);

settings! {
    /// Settings of the netmod `tcp`.
    TcpConfig: "TCP" {
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
        checksum: bool = false, "NETMOD_CHECKSUM", Kind::Bool,
            "checks every byte on a connection with CRC32C, if both sides have it on";
        security: &'static str = "auto", "NETMOD_TCP_SECURITY", Kind::Choice(&["auto", "off", "auth", "encrypt"]),
            "protection of what follows the handshake, alike in all processes: off, auth (a MAC for each record), encrypt; auto: off within a host, elsewhere encrypt where both processors have instructions for AES, else auth";
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
    check: in_order
}

/// Checks conditions on several settings.
fn in_order(cfg: &TcpConfig) -> Result<(), ConfigError> {
    if cfg.backoff_min > cfg.backoff_max {
        return Err(ConfigError::Order {
            smaller: "NETMOD_TCP_BACKOFF_MIN",
            larger: "NETMOD_TCP_BACKOFF_MAX",
        });
    }
    Ok(())
}
