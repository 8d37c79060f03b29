//! Control frames behind the handshake: goodbye, a promise taken back, acknowledgements,
//! checkpoints.

use netmod_core::{Core, Header, VcError, VcErrorKind, VcId, VcLife};

use super::TcpNetmod;
use crate::conn;
use crate::control::{CONTROL_LEN, Control, ControlError};
use crate::link::{Failure, LinkEvent};
use crate::sessions::SessionError;
use crate::vc::left_open;

/// A control frame of the peer that cannot be obeyed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum ControlFault {
    #[error(transparent)]
    Frame(#[from] ControlError),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error("it says that it has moved to port 0")]
    NoPort,
}

impl TcpNetmod {
    /// Handles a header on a VC that begins with `NETMOD_FRAME`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn control(&mut self, core: &mut Core, vc: VcId, hdr: &Header) -> Result<(), ControlFault> {
        let frame = Control::parse(hdr)?;
        if let Some(Control::Ack { position }) = frame {
            // It counts even if the connection that it was read from is gone.
            if self.sessions.acknowledged(core, &mut self.clock, vc, position)? {
                self.link_event(core, vc, LinkEvent::Drained);
            }
            return Ok(());
        }
        if let Some(Control::Suspend { connection }) = frame {
            self.peer_suspends(core, vc, connection);
            return Ok(());
        }
        if let Some(Control::Suspended { connection }) = frame {
            self.peer_knows(core, vc, connection);
            return Ok(());
        }
        if let Some(Control::Moved { port }) = frame {
            return self.peer_moved(vc, port);
        }
        let Some(v) = self.sessions.vcs.get_mut(vc) else { return Ok(()) };
        let Some(c) = v.link.conn() else { return Ok(()) };
        match frame {
            Some(Control::Goodbye) if left_open(core, vc) => {
                let why = "it has left without closing its connection with this process by agreement; did it \
                           finalize early, or run into its NETMOD_CLOSE_TIMEOUT?";
                let error = VcError::new(VcErrorKind::Closed, Some(v.peer), why);
                self.vc_abort(core, vc, error);
            }
            Some(Control::Goodbye) => {
                // No acknowledgement will follow, and the peer needs none.
                v.session.id = 0;
                if let Some(q) = &mut v.tx.queue {
                    q.settle(core, vc);
                }
                let pending = v.pending();
                if let Some(c) = self.sockets.conns.get_mut(conn::id(c)) {
                    c.peer_left = true;
                }
                self.link_event(core, vc, LinkEvent::Goodbye { conn: c, pending });
            }
            Some(Control::Withdrawn) => {
                // It is no part of the stream: its sender has not adopted the connection.
                if let Some(c) = self.sockets.conns.get_mut(conn::id(c)) {
                    c.rx.position -= CONTROL_LEN as u64;
                }
                v.session.rx_base += CONTROL_LEN as u64;
                self.close(conn::id(c));
                self.link_event(core, vc, LinkEvent::Lost { conn: c, failure: Failure::Withdrawn });
            }
            Some(
                Control::Ack { .. }
                | Control::Suspend { .. }
                | Control::Suspended { .. }
                | Control::Moved { .. },
            )
            | None => {}
        }
        Ok(())
    }
}
