//! PMI over TCP: the listener, and connections that have not identified themselves yet.

use super::LaunchError;
use super::connection::{Connection, Input};
use crate::server::Command;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Most connections without a rank; beyond that the oldest one is closed.
const SPARE: usize = 16;

#[derive(Debug)]
pub(super) struct Doorman {
    listener: TcpListener,
    address: String,
    /// Identifiers (`PMI_ID`) of the ranks that have not connected yet.
    expected: HashMap<String, u32>,
    ids: Vec<String>,
    /// Unidentified connections, each with a number that is never reused.
    pending: Vec<(u32, Connection)>,
    next: u32,
}

/// The state of a connection without a rank.
#[derive(Debug)]
pub(super) enum Caller {
    /// It has not identified itself yet.
    Waits,
    /// It is this rank.
    Rank(u32, Connection),
    /// It is no rank, or has closed.
    Nobody,
}

impl Doorman {
    pub(super) fn new(ranks: u32) -> Result<Doorman, LaunchError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(LaunchError::system("opening the PMI port"))?;
        let port = listener.local_addr().map_err(LaunchError::system("opening the PMI port"))?.port();
        let mut random = File::open("/dev/urandom")
            .map_err(LaunchError::system("opening /dev/urandom for the identifiers of ranks"))?;
        let mut expected = HashMap::new();
        let mut ids = Vec::new();
        while ids.len() < ranks as usize {
            let mut bytes = [0; 4];
            random.read_exact(&mut bytes).map_err(LaunchError::system("reading /dev/urandom"))?;
            // Clients read it as a C int.
            let id = (u32::from_ne_bytes(bytes) >> 1).to_string();
            if expected.insert(id.clone(), ids.len() as u32).is_none() {
                ids.push(id);
            } else {
                expected.clear();
                ids.clear();
            }
        }
        let address = format!("127.0.0.1:{port}");
        Ok(Doorman { listener, address, expected, ids, pending: Vec::new(), next: 0 })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Returns the value of `PMI_PORT`.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the `PMI_ID` of a rank.
    pub(super) fn id(&self, rank: u32) -> &str {
        &self.ids[rank as usize]
    }

    /// Accepts one connection; returns its number.
    pub(super) fn accept(&mut self) -> io::Result<Option<u32>> {
        loop {
            return match self.listener.accept() {
                Ok((stream, _)) => {
                    // A refusal only delays replies.
                    stream.set_nodelay(true).ok();
                    if self.pending.len() >= self.expected.len() + SPARE {
                        self.pending.remove(0);
                    }
                    let number = self.next;
                    self.next = self.next.wrapping_add(1);
                    self.pending.push((number, Connection::new(OwnedFd::from(stream))));
                    Ok(Some(number))
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
                Err(e)
                    if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted) =>
                {
                    continue;
                }
                Err(e) => Err(e),
            };
        }
    }

    /// Returns the descriptor of a connection without a rank.
    pub(super) fn pending_fd(&self, number: u32) -> Option<BorrowedFd<'_>> {
        self.pending.iter().find(|(n, _)| *n == number).map(|(_, c)| c.fd())
    }

    /// Returns the numbers of all connections without a rank.
    pub(super) fn pending(&self) -> Vec<u32> {
        self.pending.iter().map(|(number, _)| *number).collect()
    }

    /// Reads from a connection without a rank.
    pub(super) fn hear(&mut self, number: u32) -> Caller {
        let Some(at) = self.pending.iter().position(|(n, _)| *n == number) else {
            return Caller::Nobody;
        };
        let connection = &mut self.pending[at].1;
        let input = connection.fill();
        let rank = match connection.next_line() {
            Ok(None) if input != Input::Closed => return Caller::Waits,
            Ok(Some(line)) => match Command::parse(line) {
                Ok(Command::Initack { id }) => self.expected.remove(id),
                _ => None,
            },
            _ => None,
        };
        let (_, connection) = self.pending.remove(at);
        match rank {
            Some(rank) => Caller::Rank(rank, connection),
            None => {
                tracing::warn!("a connection to the PMI port did not name a rank of this job");
                Caller::Nobody
            }
        }
    }
}
