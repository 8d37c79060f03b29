//! Detection of congestion controls that pace TCP's sending.

/// Common prefix of the names of congestion controls that pace (`tcp(7)`, `TCP_CONGESTION`).
const PACED: &str = "bbr";

/// Returns true if TCP with this congestion control paces its sending.
///
/// Data in the socket's buffer then leaves late and has left the CPU's caches. With other
/// congestion controls it leaves at once, as far as the peer has room.
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
