//! FNV-1a with 64 bits (draft-eastlake-fnv): stable over versions and machines. It detects
//! accidents, not forgery.

/// The state of a hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fnv(u64);

impl Fnv {
    pub(crate) fn new() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.0 = (self.0 ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Adds a field of any length, delimited so that it cannot run into the next one.
    pub(crate) fn field(&mut self, bytes: &[u8]) {
        self.bytes(&(bytes.len() as u32).to_le_bytes());
        self.bytes(bytes);
    }

    pub(crate) fn finish(self) -> u64 {
        self.0
    }
}

/// Returns a hash of two names, for choosing among equally good pairs.
///
/// Different peers then get different ones.
pub fn spread(a: &[u8], b: &[u8]) -> u64 {
    let mut h = Fnv::new();
    h.bytes(a);
    h.bytes(b);
    // Without folding, the low bits depend on the last byte alone.
    h.0 ^ h.0 >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values() {
        let hash = |bytes: &[u8]| {
            let mut h = Fnv::new();
            h.bytes(bytes);
            h.finish()
        };
        assert_eq!(hash(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(hash(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
