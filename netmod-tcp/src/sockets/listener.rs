//! The listener: where a process listens, taking connections, and pausing when no descriptor is
//! left.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::Duration;

use netmod_core::{DeviceError, Time};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::NAME;
use crate::clock::Clock;
use crate::config::TcpConfig;
use crate::interfaces::Interfaces;
use crate::stats::TcpStats;
use crate::sys::{self, Interest};

use super::Sockets;
use super::options::buffer_sizes;

/// The key of the listener in epoll; no connection has it.
pub(crate) const LISTENER: u64 = u64::MAX;
/// Attempts to take one connection.
const ATTEMPTS: usize = 16;
/// Pause of accepting when no descriptor is left.
const NO_DESCRIPTOR_PAUSE: Duration = Duration::from_millis(100);
/// Connections that may wait to be accepted; the kernel lowers it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// The listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: Socket,
    pub(crate) port: u16,
}

fn error(text: String) -> DeviceError {
    DeviceError::new(NAME, text)
}

impl Listener {
    /// Opens the listening socket: on all addresses of both families, or on the only one that is
    /// published. It takes the port `preferred` if that is free, and not 0.
    pub(crate) fn open(
        cfg: &TcpConfig,
        interfaces: &mut Interfaces,
        preferred: u16,
    ) -> Result<Listener, DeviceError> {
        let bind_to: Vec<IpAddr> = match interfaces.only_address() {
            Some(ip) => vec![ip],
            // IPv4-only kernels have no IPv6 sockets at all.
            None => vec![IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)],
        };
        let mut last = None;
        for ip in bind_to {
            match listen_on(ip, cfg, preferred) {
                Ok(socket) => {
                    let at = socket.local_addr().ok().and_then(|a| a.as_socket());
                    let port = at.ok_or_else(|| error("the listening socket has no address".into()))?.port();
                    if ip == IpAddr::V4(Ipv4Addr::UNSPECIFIED) {
                        interfaces.without_ipv6()?;
                    }
                    return Ok(Listener { socket, port });
                }
                Err(e) => last = Some(e),
            }
        }
        Err(last.unwrap_or_else(|| error("nothing to listen on".into())))
    }
}

fn listen_on(ip: IpAddr, cfg: &TcpConfig, preferred: u16) -> Result<Socket, DeviceError> {
    let open = |port: u16| -> std::io::Result<Socket> {
        let at = SocketAddr::from((ip, port));
        let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
        if ip == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
            socket.set_only_v6(false)?;
        }
        buffer_sizes(&socket, cfg)?;
        socket.set_nonblocking(true)?;
        if port == 0 {
            socket.bind(&SockAddr::from(at))?;
        }
        // Connections that are closed keep the port for a minute; with this they do not keep it
        // from its listener. When the system chooses the port it must not choose one that another
        // socket would share.
        socket.set_reuse_address(true)?;
        if port != 0 {
            socket.bind(&SockAddr::from(at))?;
        }
        socket.listen(BACKLOG)?;
        Ok(socket)
    };
    if preferred != 0
        && let Ok(socket) = open(preferred)
    {
        return Ok(socket);
    }
    let Some(range) = cfg.port_range else {
        return open(0).map_err(|e| error(format!("cannot listen on {ip}: {e}")));
    };
    let mut last = None;
    for port in range.first..=range.last {
        match open(port) {
            Ok(s) => return Ok(s),
            Err(e) => last = Some(e),
        }
    }
    let why = last.map_or_else(|| "the range is empty".to_string(), |e| e.to_string());
    Err(error(format!(
        "no port of NETMOD_TCP_PORT_RANGE={}-{} can be listened on at {ip} (the last one: {why}); is the range as large as the number of ranks on this node?",
        range.first, range.last
    )))
}

impl Sockets {
    /// Takes a listener into epoll, which may lack room for it; it is watched for nothing yet.
    pub(super) fn set_listener(&mut self, listener: Listener) -> Result<(), DeviceError> {
        self.epoll
            .add(listener.socket.as_raw_fd(), LISTENER, Interest::NONE)
            .map_err(|e| error(format!("cannot watch the listening socket: {e}")))?;
        self.listener = Some(listener);
        Ok(())
    }

    /// Has epoll report incoming connections from now on.
    pub(crate) fn watch_listener(&self) -> Result<(), DeviceError> {
        let Some(l) = &self.listener else { return Ok(()) };
        self.epoll
            .modify(l.socket.as_raw_fd(), LISTENER, Interest::READ)
            .map_err(|e| error(format!("cannot watch the listening socket: {e}")))
    }

    /// Returns the port of the listener; 0 if there is none.
    pub(crate) fn port(&self) -> u16 {
        self.listener.as_ref().map_or(0, |l| l.port)
    }

    /// Closes the listener.
    pub(crate) fn close_listener(&mut self) {
        if let Some(l) = self.listener.take() {
            // A listener that was never watched is not in epoll; that is no fault.
            let _ = self.epoll.remove(l.socket.as_raw_fd());
        }
    }

    /// Takes a connection from the listener, if one waits. Pauses when no descriptor is left.
    pub(crate) fn accept(&mut self, clock: &mut Clock, stats: &mut TcpStats) -> Option<Socket> {
        for _ in 0..ATTEMPTS {
            match self.listener.as_ref()?.socket.accept() {
                Ok((socket, _)) => {
                    stats.accepted += 1;
                    return Some(socket);
                }
                Err(e)
                    if matches!(
                        e.raw_os_error(),
                        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
                    ) =>
                {
                    self.pause_accepting(&e, clock, stats);
                    return None;
                }
                Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN)) => return None,
                // The one at the head of the queue was gone already; the next may be good.
                Err(e) => tracing::debug!(%e, "accept"),
            }
        }
        None
    }

    /// Pauses accepting: without a descriptor the listener would stay readable to no use.
    #[cold]
    fn pause_accepting(&mut self, e: &std::io::Error, clock: &mut Clock, stats: &mut TcpStats) {
        if stats.no_descriptor == 0 {
            tracing::warn!(
                %e,
                limit = sys::descriptor_limit(),
                "no descriptor for an incoming connection; peers wait and try again; raise the limit with ulimit -n"
            );
        }
        stats.no_descriptor += 1;
        self.accept_again = clock.now + NO_DESCRIPTOR_PAUSE;
        clock.wake_by(self.accept_again);
        self.watch_listener_for(Interest::NONE);
    }

    /// Goes on accepting if a pause is over.
    pub(crate) fn accept_after_pause(&mut self, clock: &mut Clock) {
        if self.accept_again == Time::NEVER {
            return;
        }
        if clock.now < self.accept_again {
            return clock.wake_by(self.accept_again);
        }
        self.accept_again = Time::NEVER;
        self.watch_listener_for(Interest::READ);
    }

    fn watch_listener_for(&mut self, interest: Interest) {
        if let Some(l) = &self.listener
            && let Err(e) = self.epoll.modify(l.socket.as_raw_fd(), LISTENER, interest)
        {
            tracing::error!(%e, "epoll does not know the listener");
        }
    }
}
