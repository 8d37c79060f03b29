//! Settings of the netmod `shm`.

use netmod_core::config::Kind;
use netmod_core::config::units::G;
use netmod_core::settings;

settings! {
    /// Settings of the netmod `shm`.
    ShmConfig: "Shared memory" {
        dir: String = "/dev/shm".to_owned(), "NETMOD_SHM_DIR", Kind::Text { max: 4000 },
            "folder of the shared memory files of a node's ranks, on a file system in memory";
        ranks: usize = 0, "NETMOD_SHM_RANKS", Kind::Count { min: 0, max: 448 },
            "consecutive ranks that share memory in one folder, whatever nodes the launcher reports; 0: those of a node";
        joint: &'static str = "auto", "NETMOD_SHM_JOINT", Kind::Choice(&["auto", "on", "off"]),
            "copying of a long message in mode get; on: by both sides; off: by the receiver alone; auto: on if there is a core for each polling thread";
        register_max: usize = 0, "NETMOD_SHM_REGISTER_MAX", Kind::Size { min: 0, max: 1024 * G },
            "bytes that large messages may register at once; more moves window by window; 0: no limit";
    }
    check: |_| Ok(())
}
