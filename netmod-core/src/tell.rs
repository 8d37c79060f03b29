//! What users are told on stderr, where their program takes no interest in what is traced.

use std::fmt::Display;
use std::io::{self, Write};

/// Writes a line to stderr.
pub fn on_stderr(what: &dyn Display) {
    // Whoever has closed it does not want to know.
    let _ = write_line(&mut io::stderr(), what);
}

/// In one piece: the processes of a job have the same stderr, and lines that go out in parts get mixed.
fn write_line(out: &mut impl Write, what: &dyn Display) -> io::Result<()> {
    out.write_all(format!("netmod: {what}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Pieces(Vec<Vec<u8>>);

    impl Write for Pieces {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_goes_out_in_one_piece() {
        let mut out = Pieces::default();
        write_line(&mut out, &format_args!("{} of {}", 1, 2)).expect("it takes everything");
        assert_eq!(out.0, [b"netmod: 1 of 2\n".to_vec()]);
    }
}
