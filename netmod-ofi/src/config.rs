//! Settings of the netmod `ofi`.

use core::time::Duration;

use netmod_core::config::Kind;
use netmod_core::config::units::{G, HOUR, K, M, MS};
use netmod_core::settings;

const CONNECT: Duration = Duration::from_secs(30);
const DETECT: Duration = Duration::from_secs(15);

settings! {
    /// Settings of the netmod `ofi`.
    OfiConfig: "libfabric" {
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
    check: |_| Ok(())
}
