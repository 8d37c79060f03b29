//! Messages on stderr, for programs that do not subscribe to traces.

use std::fmt::Display;
use std::io::{self, Write};

/// Writes a line to stderr.
pub fn on_stderr(what: &dyn Display) {
    // A closed stderr is no error.
    let _ = write_line(&mut io::stderr(), what);
}

/// Writes a line at once: the processes of a job share stderr, and parts of lines would mix.
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
