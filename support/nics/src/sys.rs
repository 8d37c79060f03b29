//! System calls: netlink sockets and interface ioctls.

#![allow(unsafe_code)]

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::kernel::Channel;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: numbers only.
    let fd = check(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) })?;
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A netlink socket of the network namespace in which it was opened.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
}

/// Longest wait for an answer in milliseconds.
///
/// The kernel has answered when `send` returns; a sandbox that imitates the kernel may not have.
const PATIENCE: i32 = 1000;

impl Socket {
    /// Opens a socket for requests, with a buffer for many answers.
    ///
    /// # Errors
    ///
    /// Those of `socket(2)` and `bind(2)`.
    pub fn asking() -> io::Result<Socket> {
        let made = Socket::bound(0)?;
        // The default is enough for one batch; this is for kernels with larger answers.
        let room: libc::c_int = 1 << 20;
        let len = size_of_val(&room) as libc::socklen_t;
        // SAFETY: the option's value is `len` bytes at `room`. A refusal leaves the default.
        unsafe {
            libc::setsockopt(made.raw(), libc::SOL_SOCKET, libc::SO_RCVBUF, (&raw const room).cast(), len);
        }
        Ok(made)
    }

    /// Opens a socket for notifications of these groups (`RTMGRP_*`, one bit each).
    pub(crate) fn hearing(groups: u32) -> io::Result<Socket> {
        Socket::bound(groups)
    }

    fn bound(groups: u32) -> io::Result<Socket> {
        let fd = socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?;
        // SAFETY: the struct is of integers: zeros are valid, and let the kernel choose the port.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        address.nl_groups = groups;
        let len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: `len` bytes of a socket address.
        check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) })?;
        Ok(Socket { fd })
    }

    pub(crate) fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    pub(crate) fn borrowed(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn wait(&self) -> io::Result<()> {
        let mut poll = libc::pollfd { fd: self.raw(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the pointer is to one pollfd, as the count says.
        match check(unsafe { libc::poll(&mut poll, 1, PATIENCE) })? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            _ => Ok(()),
        }
    }
}

impl Channel for Socket {
    fn send(&mut self, requests: &[u8]) -> io::Result<()> {
        // SAFETY: the bytes of a slice.
        let sent = unsafe { libc::send(self.raw(), requests.as_ptr().cast(), requests.len(), 0) };
        // A datagram is sent whole or not at all.
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn receive(&mut self, buffer: &mut [u8], wait: bool) -> io::Result<usize> {
        loop {
            // SAFETY: the struct is of integers: zeros are a valid value.
            let mut from: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
            let mut len = size_of_val(&from) as libc::socklen_t;
            let flags = libc::MSG_TRUNC | libc::MSG_DONTWAIT;
            let sender = (&raw mut from).cast();
            // SAFETY: the pointers and lengths are those of a slice and of an address structure.
            let got = unsafe {
                libc::recvfrom(self.raw(), buffer.as_mut_ptr().cast(), buffer.len(), flags, sender, &mut len)
            };
            match usize::try_from(got) {
                // Port 0 is the kernel's; other senders are ignored.
                Ok(got) if from.nl_pid == 0 => return Ok(got),
                Ok(_) => {}
                Err(_) => match io::Error::last_os_error() {
                    e if wait && e.kind() == io::ErrorKind::WouldBlock => self.wait()?,
                    e if e.kind() == io::ErrorKind::Interrupted => {}
                    e => return Err(e),
                },
            }
        }
    }
}

/// An IPv4 address as the ioctl reports it.
pub(crate) struct Labelled {
    /// Interface name, or a label that begins with it.
    pub(crate) name: String,
    pub(crate) ip: Ipv4Addr,
    pub(crate) mask: u32,
}

/// A socket for ioctls on interfaces (`netdevice(7)`).
#[derive(Debug)]
pub(crate) struct Control {
    fd: OwnedFd,
}

/// `ETHTOOL_GLINKSETTINGS` of `<linux/ethtool.h>`.
const GLINKSETTINGS: u32 = 0x4c;

/// `struct ethtool_link_settings`, with room for three maps of link modes of the largest size.
#[repr(C)]
struct LinkSettings {
    cmd: u32,
    speed: u32,
    bytes: [u8; 7],
    /// Words of each map; negative if the kernel expects the opposite number.
    words: i8,
    rest: [u8; 32],
    maps: [u32; 3 * 127],
}

const _: () = assert!(std::mem::offset_of!(LinkSettings, words) == 15);
const _: () = assert!(std::mem::offset_of!(LinkSettings, maps) == 48);

impl Control {
    pub(crate) fn new() -> io::Result<Control> {
        Ok(Control { fd: socket(libc::AF_INET, libc::SOCK_DGRAM, 0)? })
    }

    fn request(name: &str) -> io::Result<libc::ifreq> {
        // SAFETY: the struct is of integers and pointers that nobody dereferences: zeros are valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        let room = request.ifr_name.len();
        if name.len() >= room {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the name of an interface is too long"));
        }
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        Ok(request)
    }

    /// Issues an ioctl.
    ///
    /// # Safety
    ///
    /// The operation must read and write only the request and the memory that it points to, within
    /// its bounds.
    unsafe fn ioctl(&self, operation: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: the caller's promise. The type of the operation differs between C libraries.
        check(unsafe { libc::ioctl(self.fd.as_raw_fd(), operation as _, &raw mut *request) }).map(|_| ())
    }

    /// Returns the speed in Mb/s; `None` if the driver does not know or cannot tell.
    pub(crate) fn speed(&self, name: &str) -> io::Result<Option<u32>> {
        // SAFETY: the struct is of integers: zeros are valid.
        let mut settings: LinkSettings = unsafe { std::mem::zeroed() };
        settings.cmd = GLINKSETTINGS;
        // The first call returns the length of the maps, the second one fills them.
        for _ in 0..2 {
            let mut request = Control::request(name)?;
            request.ifr_ifru.ifru_data = (&raw mut settings).cast();
            // SAFETY: SIOCETHTOOL writes what the command at the start of the data asks for: the
            // struct, and three times as many words as `words` says, of which there is room for any
            // number.
            match unsafe { self.ioctl(libc::SIOCETHTOOL, &mut request) } {
                Ok(()) => {}
                // The driver does not support the query, or not now; or the interface has gone.
                Err(e)
                    if matches!(
                        e.raw_os_error(),
                        Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENODEV | libc::ENOTTY)
                    ) =>
                {
                    return Ok(None);
                }
                Err(e) => return Err(e),
            }
            if settings.words >= 0 {
                break;
            }
            settings.words = settings.words.saturating_neg();
            settings.cmd = GLINKSETTINGS;
        }
        Ok(Some(settings.speed).filter(|speed| *speed != 0 && *speed <= i32::MAX as u32))
    }

    pub(crate) fn index(&self, name: &str) -> io::Result<u32> {
        let mut request = Control::request(name)?;
        // SAFETY: SIOCGIFINDEX writes an integer into the request.
        unsafe { self.ioctl(libc::SIOCGIFINDEX, &mut request)? };
        // SAFETY: an integer, which all bytes are.
        let index = unsafe { request.ifr_ifru.ifru_ifindex };
        u32::try_from(index).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    pub(crate) fn flags(&self, name: &str) -> io::Result<u16> {
        let mut request = Control::request(name)?;
        // SAFETY: SIOCGIFFLAGS writes an integer into the request.
        unsafe { self.ioctl(libc::SIOCGIFFLAGS, &mut request)? };
        // SAFETY: an integer, which all bytes are.
        Ok(unsafe { request.ifr_ifru.ifru_flags }.cast_unsigned())
    }

    pub(crate) fn mtu(&self, name: &str) -> io::Result<u32> {
        let mut request = Control::request(name)?;
        // SAFETY: SIOCGIFMTU writes an integer into the request.
        unsafe { self.ioctl(libc::SIOCGIFMTU, &mut request)? };
        // SAFETY: an integer, which all bytes are.
        let mtu = unsafe { request.ifr_ifru.ifru_mtu };
        u32::try_from(mtu).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// Returns the IPv4 addresses of all interfaces.
    pub(crate) fn addresses(&self) -> io::Result<Vec<Labelled>> {
        // SAFETY: as in `request`.
        let empty: libc::ifreq = unsafe { std::mem::zeroed() };
        let mut room = 64;
        loop {
            let mut list = vec![empty; room];
            let bytes = size_of_val(&list[..]);
            // SAFETY: as in `request`; a list of that many bytes follows.
            let mut conf: libc::ifconf = unsafe { std::mem::zeroed() };
            conf.ifc_len = libc::c_int::try_from(bytes).map_err(|_| io::ErrorKind::InvalidData)?;
            conf.ifc_ifcu.ifcu_req = list.as_mut_ptr();
            // SAFETY: SIOCGIFCONF writes at most `ifc_len` bytes to the list, and their number into
            // `ifc_len`.
            check(unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SIOCGIFCONF as _, &raw mut conf) })?;
            let got = usize::try_from(conf.ifc_len).unwrap_or(0) / size_of::<libc::ifreq>();
            if got < room {
                return Ok(list[..got].iter().filter_map(|one| self.labelled(*one)).collect());
            }
            // A full list may be incomplete; the kernel does not report the total.
            room *= 4;
        }
    }

    /// Returns `None` if the address has gone meanwhile.
    fn labelled(&self, mut request: libc::ifreq) -> Option<Labelled> {
        let address = |request: &libc::ifreq| {
            // SAFETY: the kernel wrote a socket address there; an IPv4 one has the same size and is
            // of integers.
            let sin: libc::sockaddr_in = unsafe { std::mem::transmute(request.ifr_ifru.ifru_addr) };
            u32::from_be(sin.sin_addr.s_addr)
        };
        let name: Vec<u8> = request.ifr_name.iter().map(|c| *c as u8).take_while(|c| *c != 0).collect();
        let ip = Ipv4Addr::from(address(&request));
        // SAFETY: SIOCGIFNETMASK reads an address of the request, and writes a mask in its place.
        let mask = match unsafe { self.ioctl(libc::SIOCGIFNETMASK, &mut request) } {
            Ok(()) => address(&request),
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENODEV | libc::EADDRNOTAVAIL)) => return None,
            // A sandbox may not support the ioctl: the address exists, but its subnet is unknown.
            Err(_) => u32::MAX,
        };
        Some(Labelled { name: String::from_utf8_lossy(&name).into_owned(), ip, mask })
    }
}
