//! Output of the ranks and of the launcher: reading, writing, and failures to write.

use super::{GRACE, Job, Token};
use crate::launch::output::{Flow, Output};
use crate::launch::writer::{Target, Writer};
use crate::launch::{Failure, LaunchError};
use crate::sys::{self, EventFd, Interest};
use std::io;
use std::sync::Arc;
use std::time::Instant;

/// The launcher's own output.
pub(super) struct Streams {
    stdout: Writer,
    stderr: Writer,
    /// Eventfd, readable when output was written or cannot be.
    pub(super) written: Arc<EventFd>,
    /// Output that is not read until more of it is written.
    full: Vec<(u32, Target)>,
    /// Captured output, and whether there was more.
    pub(super) captured: Option<(Vec<u8>, bool)>,
}

impl Streams {
    pub(super) fn new() -> io::Result<Streams> {
        let written = Arc::new(EventFd::new()?);
        Ok(Streams {
            stdout: Writer::new(Target::Stdout, Arc::clone(&written)),
            stderr: Writer::new(Target::Stderr, Arc::clone(&written)),
            written,
            full: Vec::new(),
            captured: None,
        })
    }
}

impl Job<'_> {
    pub(super) fn say(&mut self, text: &str) {
        if !self.launcher.quiet {
            self.streams.stderr.say(format!("nmrun: {text}\n"));
        }
    }

    /// Passes output on, and closes the pipe at its end. A rank with too much unwritten output is
    /// not read.
    pub(super) fn pass(&mut self, rank: u32, target: Target) -> io::Result<()> {
        let state = &mut self.ranks[rank as usize];
        let (slot, writer) = match target {
            Target::Stdout => (&mut state.stdout, &mut self.streams.stdout),
            Target::Stderr => (&mut state.stderr, &mut self.streams.stderr),
        };
        let Some(output) = slot else { return Ok(()) };
        match output.pass(writer) {
            Flow::More | Flow::Later => return Ok(()),
            Flow::Full => {
                self.epoll.remove(output.fd())?;
                self.streams.full.push((rank, target));
                return Ok(());
            }
            Flow::Ended => {}
            Flow::Failed(error) => {
                let what = format!("the output of rank {rank} cannot be read: {error}");
                self.note(Failure { rank: None, code: 1, what });
                return self.end_output(rank, target);
            }
        }
        self.end_output(rank, target)
    }

    fn end_output(&mut self, rank: u32, target: Target) -> io::Result<()> {
        let state = &mut self.ranks[rank as usize];
        let (slot, writer) = match target {
            Target::Stdout => (&mut state.stdout, &mut self.streams.stdout),
            Target::Stderr => (&mut state.stderr, &mut self.streams.stderr),
        };
        let Some(mut output) = slot.take() else { return Ok(()) };
        output.finish(writer);
        // Closing does the same, unless somebody has a duplicate. A full pipe is not in the set.
        let _ = self.epoll.remove(output.fd());
        if let Some(bytes) = output.into_captured() {
            self.streams.captured = Some(bytes);
        }
        Ok(())
    }

    /// Resumes the ranks that waited for output to be written, after a write or its failure.
    pub(super) fn written(&mut self) -> io::Result<()> {
        self.streams.written.consume();
        self.check_writers();
        for (rank, target) in std::mem::take(&mut self.streams.full) {
            let state = &self.ranks[rank as usize];
            let (slot, token) = match target {
                Target::Stdout => (&state.stdout, Token::Stdout(rank)),
                Target::Stderr => (&state.stderr, Token::Stderr(rank)),
            };
            match slot {
                Some(output) if output.is_full() => self.streams.full.push((rank, target)),
                Some(output) => self.epoll.add(output.fd(), token.number(), Interest::Read)?,
                None => {}
            }
        }
        Ok(())
    }

    /// Records a failed write as a failure of the job. It ends no ranks, since they may not write
    /// at all.
    fn check_writers(&mut self) {
        let failed = [(&mut self.streams.stdout, "stdout"), (&mut self.streams.stderr, "stderr")]
            .map(|(writer, name)| writer.take_failure().map(|why| (name, why, writer.reader_is_gone())));
        for (name, why, gone) in failed.into_iter().flatten() {
            // The code is that of SIGPIPE, like any program whose reader closes.
            let code = if gone { 128 + libc::SIGPIPE } else { 1 };
            let what = format!("cannot write the output of the ranks to {name}: {why}");
            self.note(Failure { rank: None, code, what });
        }
    }

    /// Records and reports a failure that is not a rank's.
    pub(super) fn note(&mut self, failure: Failure) {
        self.say(&failure.to_string());
        self.failure.get_or_insert(failure);
    }

    /// Passes on the rest of the output after the end of all ranks.
    ///
    /// Waits until all of it is written, unless the job is to end at once.
    pub(super) fn drain(&mut self) -> Result<(), LaunchError> {
        let failed = "writing the output of the ranks";
        for rank in &self.ranks {
            for output in [&rank.stdout, &rank.stderr].into_iter().flatten() {
                // A full pipe is not in the set.
                let _ = self.epoll.remove(output.fd());
            }
        }
        if let Some(doorman) = &self.doorman {
            self.epoll.remove(doorman.fd()).map_err(LaunchError::system(failed))?;
        }
        let hurry = self.interrupted || self.ending;
        let limit = hurry.then(|| Instant::now() + GRACE);
        let mut ready = Vec::new();
        loop {
            let all_read = self.read_rest();
            self.check_writers();
            let unwritten = self.streams.stdout.unwritten() + self.streams.stderr.unwritten();
            if all_read && unwritten == 0 {
                return Ok(());
            }
            let now = Instant::now();
            let over = |at: Option<Instant>| at.is_some_and(|at| now >= at);
            let code = match self.signals.as_ref().and_then(sys::SignalPipe::take) {
                Some((signal, _)) if self.launcher.passed_on != Some(signal) => Some(128 + signal),
                _ if over(self.time_limit) => Some(124),
                _ if over(limit) => Some(1),
                _ => None,
            };
            if let Some(code) = code {
                let what = format!("{unwritten} bytes of output were not written: nobody reads them");
                self.note(Failure { rank: None, code, what });
                return Ok(());
            }
            let deadline = [limit, self.time_limit].into_iter().flatten().min();
            self.epoll.wait(&mut ready, deadline).map_err(LaunchError::system(failed))?;
            if ready.iter().any(|event| event.token == Token::Written.number()) {
                self.streams.written.consume();
            }
        }
    }

    /// Reads as far as there is room. Returns true if there is no more.
    fn read_rest(&mut self) -> bool {
        let mut all = true;
        for rank in &mut self.ranks {
            for (slot, writer) in
                [(&mut rank.stdout, &mut self.streams.stdout), (&mut rank.stderr, &mut self.streams.stderr)]
            {
                let Some(output) = slot else { continue };
                let flow = loop {
                    match output.pass(writer) {
                        Flow::More => {}
                        flow => break flow,
                    }
                };
                if matches!(flow, Flow::Full) {
                    all = false;
                    continue;
                }
                output.finish(writer);
                if let Some(captured) = slot.take().and_then(Output::into_captured) {
                    self.streams.captured = Some(captured);
                }
            }
        }
        all
    }
}
