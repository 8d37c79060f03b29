//! The floor of networks: a bare TCP socket between the same two processes, at the same address.
//!
//! The socket is independent of the device's.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use ch3_shim::{Comm, Device};

use super::{TAG, Waiting, spins};
use crate::error::{During, Failure, Result};

/// Time limit for connecting the two processes.
const MEET: Duration = Duration::from_secs(20);
/// Time limit for an accepted connection to send its token.
const GREETING: Duration = Duration::from_secs(2);
/// Buffer size of a receive when messages are smaller, in bytes.
pub(crate) const GULP: usize = 64 << 10;
/// Length of an acknowledgement in bytes.
pub(crate) const ACK: usize = 4;

/// A bare TCP connection between ranks 0 and 1.
#[derive(Debug)]
pub(crate) struct RawSocket {
    stream: TcpStream,
    waiting: Waiting,
    lead: bool,
    spins: u32,
}

/// Returns the address of the device's connection with `peer`.
fn device_address(dev: &Device, peer: u32) -> Option<SocketAddr> {
    let report = dev.report().into_iter().find(|r| r.rank == peer)?;
    report.netmod.split_whitespace().find_map(|word| word.trim_end_matches(',').parse().ok())
}

/// Listens on all addresses of the peer's family.
fn listen(dev: &Device, v4: bool) -> Result<TcpListener> {
    let any: IpAddr = if v4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let Some(range) = dev.config().tcp.port_range else {
        return TcpListener::bind((any, 0)).during("listen for the raw socket");
    };
    let mut last = io::Error::from(ErrorKind::AddrInUse);
    for port in range.ports() {
        match TcpListener::bind((any, port)) {
            Ok(l) => return Ok(l),
            Err(e) => last = e,
        }
    }
    Err(last).during(format!("listen for the raw socket on a port of NETMOD_TCP_PORT_RANGE={range}, which needs one port more than there are ranks"))
}

/// Accepts the connection that begins with `token`.
fn accept(listener: &TcpListener, token: u64) -> io::Result<TcpStream> {
    listener.set_nonblocking(true)?;
    let limit = Instant::now() + MEET;
    while Instant::now() < limit {
        match listener.accept() {
            Ok((mut stream, _)) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(GREETING))?;
                let mut said = [0; 8];
                if stream.read_exact(&mut said).is_ok() && u64::from_le_bytes(said) == token {
                    stream.set_read_timeout(None)?;
                    return Ok(stream);
                }
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(1)),
            Err(e) => return Err(e),
        }
    }
    Err(io::Error::from(ErrorKind::TimedOut))
}

impl RawSocket {
    /// Connects ranks 0 and 1, which both call this, at the address that the device uses between
    /// them. Returns the address as well. `crowded`: ranks share cores.
    pub(crate) fn connect(dev: &mut Device, comm: Comm, crowded: bool) -> Result<(RawSocket, IpAddr)> {
        let lead = dev.rank() == 0;
        if lead {
            let at = device_address(dev, 1).ok_or_else(|| {
                Failure::new(
                    "the netmod does not report the address of its connection, so its floor has no address",
                )
            })?;
            dev.send(&[u8::from(at.is_ipv4())], 1, TAG, comm)?;
            let mut answer = [0; 10];
            dev.recv(&mut answer, 1, TAG, comm)?;
            let (port, token) = answer.split_at(2);
            let mut to = at;
            to.set_port(u16::from_le_bytes([port[0], port[1]]));
            let mut stream = TcpStream::connect_timeout(&to, MEET)
                .during(format!("connect the raw socket to {to}; does a firewall allow only some ports? then set NETMOD_TCP_PORT_RANGE"))?;
            stream.write_all(token).during("write to the raw socket")?;
            return Ok((RawSocket::over(stream, true, crowded)?, at.ip()));
        }
        let mut v4 = [0];
        dev.recv(&mut v4, 0, TAG, comm)?;
        let listener = listen(dev, v4[0] != 0)?;
        let port = listener.local_addr().during("find the port of the raw socket")?.port();
        // Not a secret: it rejects accidental connections.
        let token = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), std::process::id());
        let mut answer = [0; 10];
        answer[..2].copy_from_slice(&port.to_le_bytes());
        answer[2..].copy_from_slice(&token.to_le_bytes());
        dev.send(&answer, 0, TAG, comm)?;
        let stream = accept(&listener, token).during("accept the raw socket of rank 0")?;
        let ip = stream.local_addr().during("find the address of the raw socket")?.ip();
        Ok((RawSocket::over(stream, false, crowded)?, ip))
    }

    fn over(stream: TcpStream, lead: bool, crowded: bool) -> Result<RawSocket> {
        stream.set_nodelay(true).during("set TCP_NODELAY of the raw socket")?;
        stream.set_nonblocking(true).during("make the raw socket non-blocking")?;
        Ok(RawSocket { stream, waiting: Waiting::Spinning, lead, spins: spins(crowded) })
    }

    fn wait_by(&mut self, waiting: Waiting) -> Result<()> {
        if self.waiting != waiting {
            self.stream
                .set_nonblocking(waiting == Waiting::Spinning)
                .during("change the mode of the raw socket")?;
            self.waiting = waiting;
        }
        Ok(())
    }

    /// Receives at least one byte.
    #[inline]
    fn some(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut vain = 0;
        loop {
            match self.stream.read(buf) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => return Ok(n),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    vain += 1;
                    if vain % self.spins == 0 {
                        std::thread::yield_now();
                    }
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Fills `buf`.
    #[inline]
    fn fill(&mut self, buf: &mut [u8]) -> io::Result<()> {
        let mut got = 0;
        while got < buf.len() {
            got += self.some(&mut buf[got..])?;
        }
        Ok(())
    }

    /// Writes all of `data`.
    #[inline]
    fn put(&mut self, data: &[u8]) -> io::Result<()> {
        let (mut done, mut vain) = (0, 0);
        while done < data.len() {
            match self.stream.write(&data[done..]) {
                Ok(n) => done += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    vain += 1;
                    if vain % self.spins == 0 {
                        std::thread::yield_now();
                    }
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Does `iters` round trips of messages as long as the buffers; both sides spin.
    pub(crate) fn ping_pong(&mut self, send: &[u8], recv: &mut [u8], iters: usize) -> Result<()> {
        self.wait_by(Waiting::Spinning)?;
        let mut all = || {
            for _ in 0..iters {
                if self.lead {
                    self.put(send)?;
                    self.fill(recv)?;
                } else {
                    self.fill(recv)?;
                    self.put(send)?;
                }
            }
            Ok::<_, io::Error>(())
        };
        all().during("play ping-pong over the raw socket")
    }

    /// Writes `send` `count` times as one stream, whose end is acknowledged. The receiver reads up
    /// to a message at once, or [`GULP`] if that is more.
    pub(crate) fn stream(
        &mut self,
        waiting: Waiting,
        send: &[u8],
        recv: &mut [u8],
        count: usize,
    ) -> Result<()> {
        self.wait_by(waiting)?;
        let gulp = recv.len().min(send.len().max(GULP));
        let mut all = || {
            if self.lead {
                for _ in 0..count {
                    self.put(send)?;
                }
            } else {
                let mut left = send.len() * count;
                while left > 0 {
                    left -= self.some(&mut recv[..gulp.min(left)])?;
                }
            }
            self.acknowledge()
        };
        all().during("stream over the raw socket")
    }

    /// Sends `count` messages in both directions at once; both sides spin.
    pub(crate) fn both_ways(&mut self, send: &[u8], recv: &mut [u8], count: usize) -> Result<()> {
        self.wait_by(Waiting::Spinning)?;
        let total = send.len() * count;
        let mut all = || {
            let (mut out, mut inn, mut vain) = (0, 0, 0u32);
            while out < total || inn < total {
                let mut moved = 0;
                if out < total {
                    moved += some_or_none(self.stream.write(&send[out % send.len()..]))?.unwrap_or(0);
                    out += moved;
                }
                if inn < total {
                    let at = inn % recv.len();
                    match some_or_none(self.stream.read(&mut recv[at..]))? {
                        Some(0) => return Err(ErrorKind::UnexpectedEof.into()),
                        Some(n) => {
                            inn += n;
                            moved += n;
                        }
                        None => {}
                    }
                }
                if moved == 0 {
                    vain += 1;
                    if vain % self.spins == 0 {
                        std::thread::yield_now();
                    }
                }
            }
            Ok::<_, io::Error>(())
        };
        all().during("stream both ways over the raw socket")
    }

    /// Sends `windows` times `window` messages, one system call each, with an acknowledgement after
    /// each window.
    pub(crate) fn messages(
        &mut self,
        send: &[u8],
        recv: &mut [u8],
        window: usize,
        windows: usize,
    ) -> Result<()> {
        self.wait_by(Waiting::Spinning)?;
        let gulp = recv.len().min(GULP);
        let mut all = || {
            for _ in 0..windows {
                if self.lead {
                    for _ in 0..window {
                        self.put(send)?;
                    }
                } else {
                    let mut left = send.len() * window;
                    while left > 0 {
                        left -= self.some(&mut recv[..gulp.min(left)])?;
                    }
                }
                self.acknowledge()?;
            }
            Ok::<_, io::Error>(())
        };
        all().during("send messages over the raw socket")
    }

    /// Acknowledges that the receiver has everything.
    #[inline]
    fn acknowledge(&mut self) -> io::Result<()> {
        if self.lead { self.fill(&mut [0; ACK]) } else { self.put(&[1; ACK]) }
    }
}

/// Returns `None` if the operation would block.
#[inline]
fn some_or_none(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(n) => Ok(Some(n)),
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(e) => Err(e),
    }
}
