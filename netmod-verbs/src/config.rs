//! Settings of the netmod `verbs`.

use core::time::Duration;

use netmod_core::config::Kind;
use netmod_core::config::units::{G, HOUR, K, M, MS};
use netmod_core::settings;

const CONNECT: Duration = Duration::from_secs(30);
const DETECT: Duration = Duration::from_secs(15);

settings! {
    /// Settings of the netmod `verbs`.
    VerbsConfig: "Verbs" {
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
    check: |_| Ok(())
}
