//! The PMI-1 and PMI-2 client: one connection to the launcher, one request at a time.

mod exchange;
mod jobs;
mod questions;
#[cfg(test)]
mod tests;
mod v1;
mod v2;
#[cfg(test)]
mod v2_tests;

use crate::codec;
use crate::state::State;
use crate::wire::{MAX_REQUEST, quote};
use crate::{PmiError, sys};
use exchange::Exchange;
use questions::Questions;
#[cfg(test)]
pub(crate) use questions::parse_ranks;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Most lines of the handshake that are read.
const MAX_HANDSHAKE: usize = 16;

/// Time limit for connecting to each address of the launcher.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Description of finalize in errors.
const GOODBYE: &str = "saying goodbye (finalize)";

/// Limits that the launcher announces, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Maxes {
    /// Longest name of a key-value space.
    pub kvsname: usize,
    /// Longest key.
    pub key: usize,
    /// Longest value, including a terminating zero.
    pub value: usize,
}

/// The version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// PMI-1, which every PMI server speaks.
    V1,
    /// PMI-2.
    V2,
}

/// The job's data from the handshake.
struct Job {
    name: String,
    appnum: i32,
    maxes: Maxes,
    /// True if the launcher names a job that has asked for this one.
    has_parent: bool,
}

/// A connection to the launcher.
///
/// Dropping it without [`finalize`](Self::finalize) is a failure of this process to the launcher,
/// once the process has ended.
#[derive(Debug)]
pub struct PmiClient {
    exchange: Exchange,
    version: Version,
    rank: u32,
    size: u32,
    kvsname: String,
    appnum: i32,
    maxes: Maxes,
    has_parent: bool,
    state: State,
    /// True after the first barrier, or if values can be looked up before it.
    fenced: bool,
    questions: Questions,
}

impl PmiClient {
    /// Connects over an inherited descriptor by its number, as in `PMI_FD`.
    ///
    /// The descriptor stays open (and is closed on exec); the client has a duplicate.
    ///
    /// # Errors
    ///
    /// Fails if the descriptor is not an open socket, or if the launcher violates the protocol.
    pub fn from_inherited_fd(
        fd: RawFd,
        rank: u32,
        size: u32,
        version: Version,
        job: Option<&str>,
    ) -> Result<PmiClient, PmiError> {
        let fd = sys::duplicate_inherited(fd).map_err(|e| PmiError::Environment {
            var: "PMI_FD",
            why: format!("descriptor {fd} cannot be used: {e}"),
        })?;
        PmiClient::from_fd(fd, rank, size, version, job)
    }

    /// Connects over a connected stream socket.
    ///
    /// `job` is the launcher's name for the job (`PMI_JOBID`), if it gave one; PMI-2 repeats it to
    /// the launcher.
    ///
    /// # Errors
    ///
    /// Fails if the launcher violates the protocol.
    pub fn from_fd(
        fd: OwnedFd,
        rank: u32,
        size: u32,
        version: Version,
        job: Option<&str>,
    ) -> Result<PmiClient, PmiError> {
        PmiClient::start(Exchange::new(fd), rank, size, version, job)
    }

    /// Connects to `host:port` (`PMI_PORT`) and identifies itself as `id` (`PMI_ID`); the launcher
    /// replies with rank and size.
    ///
    /// # Errors
    ///
    /// Fails if the address cannot be reached, or if the launcher violates the protocol.
    pub fn connect_port(address: &str, id: &str, version: Version) -> Result<PmiClient, PmiError> {
        const DOING: &str = "introducing this process (initack)";
        let stream = connect(address)?;
        let mut exchange = Exchange::new(OwnedFd::from(stream));
        exchange.send(DOING, &format!("cmd=initack pmiid={id}\n"))?;
        let (mut size, mut rank, mut debug) = (None, None, false);
        // Hydra 5 has rank and size in the first line, too, but still sends the others.
        for _ in 0..MAX_HANDSHAKE {
            let text = exchange.receive(DOING)?;
            let line = exchange.parse(DOING, &text)?;
            match line.cmd() {
                "initack" => exchange.accept(DOING, &text)?,
                "set" => {
                    size = line.number::<u32>("size").or(size);
                    rank = line.number::<u32>("rank").or(rank);
                    debug |= line.get("debug").is_some();
                }
                _ => return Err(exchange.malformed(DOING, &text, "cmd=initack or cmd=set is due")),
            }
            if let (Some(rank), Some(size), true) = (rank, size, debug) {
                return PmiClient::start(exchange, rank, size, version, None);
            }
        }
        Err(exchange.malformed(DOING, b"cmd=set", "it never told rank, size and debug"))
    }

    fn start(
        mut exchange: Exchange,
        rank: u32,
        size: u32,
        version: Version,
        job: Option<&str>,
    ) -> Result<PmiClient, PmiError> {
        if rank >= size {
            return Err(PmiError::Malformed {
                doing: "starting PMI (init)",
                line: format!("rank={rank} size={size}"),
                why: "the rank is not below the size".to_owned(),
            });
        }
        let Job { name, appnum, maxes, has_parent } = match version {
            Version::V1 => v1::start(&mut exchange)?,
            Version::V2 => v2::start(&mut exchange, rank, size, job)?,
        };
        let state = State::Idle;
        Ok(PmiClient {
            exchange,
            version,
            rank,
            size,
            kvsname: name,
            appnum,
            maxes,
            has_parent,
            state,
            // Slurm, which names its jobs, has the values for a spawned one from the beginning.
            fenced: has_parent && job.is_some(),
            questions: Questions::default(),
        })
    }

    /// Returns this process's rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Returns the number of ranks.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Returns the name of the job's key-value space, which differs from that of any other job.
    pub fn kvsname(&self) -> &str {
        &self.kvsname
    }

    /// Returns the version of the protocol.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the number of this program in a job of several programs (MPI_APPNUM); -1 if unknown.
    pub fn appnum(&self) -> i32 {
        self.appnum
    }

    /// Returns the limits that the launcher announces. The real ones may be lower; see
    /// [`wire`](crate::wire).
    pub fn maxes(&self) -> Maxes {
        self.maxes
    }

    /// Sets the time limit for the reply to a request (not for a barrier); 120 s at first.
    pub fn set_reply_timeout(&mut self, timeout: Duration) {
        self.exchange.set_timeout(timeout);
    }

    /// Returns the connection's descriptor, for poll(2) or epoll(7) only.
    ///
    /// It is readable when [`barrier_poll`](Self::barrier_poll) has something to do.
    pub fn fd(&self) -> RawFd {
        self.exchange.as_raw_fd()
    }

    /// Stores a short printable text without blanks under `key`.
    ///
    /// Every rank, this one included, can look it up after a barrier.
    ///
    /// # Errors
    ///
    /// Fails if the key or the value does not fit into one line (use
    /// [`put_bytes`](Self::put_bytes)), or if the launcher refuses or fails. Launchers refuse a key
    /// that exists.
    pub fn put_str(&mut self, key: &str, value: &str) -> Result<(), PmiError> {
        self.check_idle("put")?;
        self.check_key(key, 0)?;
        let room = self.value_room(key.len());
        let argument = |why| PmiError::Argument { key: quote(key.as_bytes()), why };
        if value.is_empty() {
            return Err(argument("an empty value is lost or fatal in some launchers".to_owned()));
        }
        if value.len() > room {
            return Err(argument(format!("{} bytes do not fit in {room}", value.len())));
        }
        // A word with `=` after a blank would be another key; `;` separates words in PMI-2.
        if !value.bytes().all(|b| b.is_ascii_graphic() && b != b'=' && b != b';') {
            return Err(argument("the value is not a printable word without = and ;".to_owned()));
        }
        self.put(key, value)
    }

    /// Looks up a short text; `Ok(None)` if the key is missing.
    ///
    /// # Errors
    ///
    /// Fails if the key is invalid, or the connection fails.
    pub fn get_str(&mut self, key: &str) -> Result<Option<String>, PmiError> {
        self.check_idle("get")?;
        self.check_key(key, 0)?;
        self.ask_text(key)
    }

    /// Stores up to [`codec::MAX_VALUE`] bytes of any content under `key`.
    ///
    /// Every rank, this one included, can look them up after a barrier with
    /// [`get_bytes`](Self::get_bytes).
    ///
    /// # Errors
    ///
    /// Fails if the key is too long or not printable, if the value is too large, or if the launcher
    /// refuses or fails. Launchers refuse a key that exists.
    pub fn put_bytes(&mut self, key: &str, value: &[u8]) -> Result<(), PmiError> {
        self.check_idle("put")?;
        self.check_key(key, codec::SUFFIX_ROOM)?;
        let room = self.value_room(key.len() + codec::SUFFIX_ROOM);
        let texts = codec::encode(value, room)
            .map_err(|e| PmiError::Argument { key: quote(key.as_bytes()), why: e.to_string() })?;
        // The heading goes last: a reader who finds it finds the rest.
        for (index, text) in texts.iter().enumerate().rev() {
            self.put(&codec::chunk_key(key, index), text)?;
        }
        Ok(())
    }

    /// Looks up a value that [`put_bytes`](Self::put_bytes) stored; `Ok(None)` if the key is
    /// missing.
    ///
    /// # Errors
    ///
    /// Fails if a part of the value is missing, truncated or changed, if the key is invalid, or if
    /// the connection fails.
    pub fn get_bytes(&mut self, key: &str) -> Result<Option<Vec<u8>>, PmiError> {
        self.check_idle("get")?;
        self.wait_value(key)
    }

    /// Looks up a job attribute under the launcher's name for it, such as `PMI_process_mapping`.
    ///
    /// `Ok(None)` if the launcher does not have it.
    ///
    /// # Errors
    ///
    /// Fails if the connection fails.
    pub fn attribute(&mut self, name: &str) -> Result<Option<String>, PmiError> {
        self.check_idle("asking about the job")?;
        self.check_key(name, 0)?;
        self.ask_attribute(name)
    }

    /// Returns the most ranks that the launcher expects (`MPI_UNIVERSE_SIZE`); `None` if it does
    /// not tell, or sets no limit.
    ///
    /// # Errors
    ///
    /// Fails if the launcher fails.
    pub fn universe_size(&mut self) -> Result<Option<u32>, PmiError> {
        self.check_idle("asking for the size of the universe")?;
        match self.version {
            Version::V1 => {
                self.settle()?;
                v1::universe_size(&mut self.exchange)
            }
            Version::V2 => Ok(self.attribute("universeSize")?.and_then(|size| size.parse().ok())),
        }
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), PmiError> {
        const DOING: &str = "storing a value (put)";
        let (request, reply) = match self.version {
            Version::V1 => (v1::put(&self.kvsname, key, value), "put_result"),
            Version::V2 => (v2::put(key, value), "kvs-put-response"),
        };
        debug_assert!(request.len() <= MAX_REQUEST);
        self.settle()?;
        let text = self.exchange.ask(DOING, &request, reply)?;
        self.exchange.accept(DOING, &text)
    }

    /// Returns the room for a value, in bytes, with a key of `key` bytes.
    fn value_room(&self, key: usize) -> usize {
        let frame = "cmd=put kvsname= key= value=\n".len() + self.kvsname.len() + key;
        // One byte of the announced length is for a terminating zero.
        MAX_REQUEST.saturating_sub(frame).min(self.maxes.value.saturating_sub(1)).min(codec::MAX_CHUNK)
    }

    fn check_key(&self, key: &str, suffix: usize) -> Result<(), PmiError> {
        let argument = |why| PmiError::Argument { key: quote(key.as_bytes()), why };
        // One byte of the announced length is for a terminating zero.
        let room = self.maxes.key.saturating_sub(1 + suffix).min(256);
        if key.is_empty() || key.len() > room {
            return Err(argument(format!("a key has 1 to {room} characters with this launcher")));
        }
        if !is_key(key) {
            return Err(argument(KEY_RULE.to_owned()));
        }
        Ok(())
    }

    /// Returns true if a barrier has begun and has not ended.
    pub fn in_barrier(&self) -> bool {
        matches!(self.state, State::InBarrier | State::BarrierOver)
    }

    /// Enters a barrier without waiting for the others.
    ///
    /// Call [`barrier_poll`](Self::barrier_poll) until it returns true.
    ///
    /// # Errors
    ///
    /// Fails if a barrier has begun already, or if the connection fails.
    pub fn barrier_begin(&mut self) -> Result<(), PmiError> {
        self.check_idle("barrier_begin")?;
        self.state = State::InBarrier;
        self.ask_barrier()
    }

    /// Returns true if all ranks have entered the barrier; never waits.
    ///
    /// After that the barrier has ended, and the values that were put before it can be looked up.
    ///
    /// # Errors
    ///
    /// Fails if no barrier has begun, or if the connection fails; the cause inside is a
    /// [`PmiError`].
    pub fn barrier_poll(&mut self) -> io::Result<bool> {
        Ok(self.poll_barrier(false)?)
    }

    /// Enters a barrier and waits, without a time limit, until all ranks have entered it.
    ///
    /// Continues a barrier that [`barrier_begin`](Self::barrier_begin) began.
    ///
    /// # Errors
    ///
    /// Fails if the connection fails.
    pub fn barrier(&mut self) -> Result<(), PmiError> {
        if !self.in_barrier() {
            self.barrier_begin()?;
        }
        self.poll_barrier(true).map(drop)
    }

    pub(crate) fn poll_barrier(&mut self, wait: bool) -> Result<bool, PmiError> {
        self.state.check_in_barrier()?;
        loop {
            self.drive()?;
            if self.state == State::BarrierOver {
                self.state = State::Idle;
                return Ok(true);
            }
            if !wait {
                return Ok(false);
            }
            self.exchange.await_message_for_ever("waiting in a barrier")?;
        }
    }

    /// Processes the message that ends the barrier.
    fn leave_barrier(&mut self, text: &[u8]) -> Result<(), PmiError> {
        const DOING: &str = "waiting in a barrier";
        let reply = match self.version {
            Version::V1 => "barrier_out",
            Version::V2 => "kvs-fence-response",
        };
        self.exchange.expect(DOING, text, reply)?;
        self.exchange.accept_if_told(DOING, text)?;
        self.state = State::BarrierOver;
        self.fenced = true;
        Ok(())
    }

    /// Tells the launcher that this process no longer needs it, so that it may end at any time.
    ///
    /// A second call does nothing.
    ///
    /// # Errors
    ///
    /// Fails if a barrier has not ended, or if the connection fails.
    pub fn finalize(&mut self) -> Result<(), PmiError> {
        while !self.finalize_poll()? {
            self.exchange.await_message(GOODBYE)?;
        }
        Ok(())
    }

    /// Does the same as [`finalize`](Self::finalize) without waiting: the first call sends the
    /// request.
    ///
    /// Returns true if the launcher has replied; the descriptor is readable when it may have.
    ///
    /// # Errors
    ///
    /// Fails if a barrier has not ended, or if the connection fails.
    pub fn finalize_poll(&mut self) -> Result<bool, PmiError> {
        if !matches!(self.state, State::Leaving | State::Finalized) {
            self.check_idle("finalize")?;
            self.questions.drop_unsent();
            self.state = State::Leaving;
            self.ask_goodbye();
        }
        self.drive()?;
        Ok(self.state == State::Finalized)
    }

    /// Processes the reply to finalize.
    fn take_goodbye(&mut self, text: &[u8]) -> Result<(), PmiError> {
        let reply = match self.version {
            Version::V1 => "finalize_ack",
            Version::V2 => "finalize-response",
        };
        self.exchange.expect(GOODBYE, text, reply)?;
        self.exchange.accept_if_told(GOODBYE, text)?;
        self.state = State::Finalized;
        Ok(())
    }

    /// Asks the launcher to end the whole job with this exit code.
    ///
    /// It is allowed in every state, and does not wait for the end. PMI-2 has no exit codes: Slurm
    /// exits with 137 in any case. Hydra 4 does not know the PMI-2 request, and ends the job
    /// because of that, with 255.
    ///
    /// # Errors
    ///
    /// Fails if the connection fails.
    pub fn abort(&mut self, code: i32) -> Result<(), PmiError> {
        let request = match self.version {
            Version::V1 => format!("cmd=abort exitcode={code}\n"),
            Version::V2 => format!("cmd=abort;isworld=TRUE;msg=exit code {code};"),
        };
        self.exchange.send("aborting the job", &request)
    }

    /// Checks that a call may begin: in the process that created the client, and not during a
    /// barrier.
    fn check_idle(&self, call: &'static str) -> Result<(), PmiError> {
        self.exchange.check_origin(call)?;
        self.state.check_idle(call)
    }

    /// Waits until the launcher closes the connection, but at most for `limit`.
    pub(crate) fn wait_closed(&mut self, limit: Duration) {
        self.exchange.wait_closed(limit);
    }
}

/// The rule for keys, for messages.
pub(crate) const KEY_RULE: &str = "a key is one printable word without = ; and ~";

/// Returns true if a key can be sent: `=` and `;` structure PMI messages, and `~` marks the chunks
/// of large values.
pub(crate) fn is_key(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'=' | b';' | b'~'))
}

fn connect(address: &str) -> Result<TcpStream, PmiError> {
    let (host, port) = split_address(address)?;
    let failed = |source| PmiError::Connect { address: address.to_owned(), source };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for target in (host, port).to_socket_addrs().map_err(failed)? {
        match TcpStream::connect_timeout(&target, CONNECT_TIMEOUT) {
            Ok(stream) => {
                // Requests are small single segments that wait for a reply.
                stream.set_nodelay(true).map_err(failed)?;
                return Ok(stream);
            }
            Err(e) => last = e,
        }
    }
    Err(failed(last))
}

/// Splits `host:port`; an IPv6 address is in brackets.
pub(crate) fn split_address(address: &str) -> Result<(&str, u16), PmiError> {
    let bad = || PmiError::Environment {
        var: "PMI_PORT",
        why: format!("\"{}\" is not host:port", quote(address.as_bytes())),
    };
    let (host, port) = address.trim().rsplit_once(':').ok_or_else(bad)?;
    let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    let port: u16 = port.parse().map_err(|_| bad())?;
    if host.is_empty() || port == 0 {
        return Err(bad());
    }
    Ok((host, port))
}
