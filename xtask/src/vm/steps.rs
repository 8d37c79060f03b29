//! Commands that run in the machine by default.

/// Name, and commands of the shell: they fail if their last one does.
pub(super) const STEPS: &[(&str, &str)] = &[
    ("the device is up", "ibv_devinfo -d rxe0 | grep PORT_ACTIVE"),
    ("libibverbs-sys drives the device", "libibverbs-real --include-ignored --test-threads=1 --nocapture"),
    ("hca-ibv drives the device", "hca-ibv-real --include-ignored --test-threads=1 --nocapture"),
    ("ibv_rc_pingpong", include_str!("steps/pingpong.sh")),
    ("netmod-perf beside verbs called directly", include_str!("steps/floors.sh")),
    ("choice of a GID", include_str!("steps/gids.sh")),
    ("conformance over verbs, large messages as is best", "conformance --include-ignored -q by_auto"),
    ("conformance over verbs, large messages by the network", "conformance --include-ignored -q by_null"),
    ("conformance over verbs, large messages by put", "conformance --include-ignored -q by_put"),
    ("conformance over verbs, large messages by get", "conformance --include-ignored -q by_get"),
    ("jobs over verbs", include_str!("steps/jobs.sh")),
    ("jobs with ranks that die unheard", include_str!("steps/detect.sh")),
    ("jobs that run out of memory, and that fork", include_str!("steps/memory.sh")),
    ("jobs that ask for XRC", include_str!("steps/xrc.sh")),
    ("jobs whose port goes and comes", include_str!("steps/ports.sh")),
];
