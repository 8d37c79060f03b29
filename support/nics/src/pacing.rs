//! Whether the kernel sends what TCP connections are given at once, or at a pace of its own.

/// What the names of congestion controls begin with that send at a pace of theirs (`tcp(7)`, `TCP_CONGESTION`).
const PACED: &str = "bbr";

/// Whether TCP with a congestion control of this name sends at a pace that it has found. What is in a connection's buffers leaves late then, and
/// has left the caches; with others it leaves at once, as far as the peer has room.
pub fn is_paced(congestion: &str) -> bool {
    congestion.trim_start().starts_with(PACED)
}

#[cfg(test)]
mod tests {
    use super::is_paced;

    #[test]
    fn some_have_a_pace_of_their_own() {
        assert!(is_paced("bbr") && is_paced("bbr2\n"));
        for name in ["cubic\n", "reno", "dctcp", "bb", ""] {
            assert!(!is_paced(name), "{name}");
        }
    }
}
