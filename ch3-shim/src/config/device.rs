//! The device's own settings.

use core::time::Duration;

use netmod_core::config::units::{DAY, G, HOUR, K, M, MS};
use netmod_core::config::{Kind, Spin};
use netmod_core::settings;

const CLOSE: Duration = Duration::from_secs(30);
const FAILURE_CHECK: Duration = Duration::from_secs(1);

settings! {
    /// The device's own settings.
    DeviceConfig: "The device" {
        netmods: Vec<String> = vec!["shm".to_owned(), "tcp".to_owned()], "NETMOD", Kind::Names,
            "netmods to use, in order of preference: of shm, tcp, ofi and verbs";
        eager_max: usize = 128 * K, "NETMOD_EAGER_MAX", Kind::Size { min: 0, max: G },
            "largest eager message in bytes; if it is not set, more within a node where its memory has room";
        eager_window: usize = 64 * M, "NETMOD_EAGER_WINDOW", Kind::Size { min: 16 * K, max: G },
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
        ckpt_timeout: Duration = HOUR, "NETMOD_CKPT_TIMEOUT", Kind::Duration { min: MS, max: DAY },
            "time limit for a checkpointed peer to return, after which it is lost";
        failure_check: Duration = FAILURE_CHECK, "NETMOD_FAILURE_CHECK",
            Kind::Duration { min: Duration::ZERO, max: HOUR },
            "interval at which a wait asks the process manager for failed ranks, and checks that it lives; 0: never";
        spin: Spin = Spin::Auto, "NETMOD_SPIN", Kind::Spin,
            "empty polls before a wait blocks; auto: many, or few and some yields if polling would oversubscribe the cores";
        progress: &'static str = "auto", "NETMOD_PROGRESS", Kind::Choice(&["auto", "off", "thread"]),
            "progress while the program makes no call; auto: a helper thread sends staged messages within a millisecond; off: they wait for the next call; thread: as auto, and a thread of the MPI library receives and sends whatever is under way";
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
        mpi_leaks: &'static str = "no", "NETMOD_MPI_LEAKS", Kind::Choice(&["no", "yes"]),
            "yes: MPI_Finalize names the objects of MPI that the program has made and not freed";
        coll_memory: usize = 32 * G, "NETMOD_COLL_MEMORY", Kind::Size { min: 0, max: 1024 * G },
            "bytes of memory that a process's communicators may share within a node for collective operations, about 4M for each of their processes; the operations of further communicators go by messages";
    }
    check: |_| Ok(())
}
