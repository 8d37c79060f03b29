//! A simulated kernel for tests: it replays a recording, and fails on demand.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use netmod_matching::Location;

use crate::kernel::{Channel, Kernel};
use crate::plain::Plain;
use crate::wire;

/// The result of a read: a datagram, or an error number.
pub(crate) type Delivery = Result<Vec<u8>, i32>;

/// A hook that changes the deliveries after the n-th `send`, whose requests it gets.
pub(crate) type Tamper = dyn FnMut(usize, &[u8], &mut VecDeque<Delivery>);

/// A hook that answers as an interface's driver.
pub(crate) type Speed = dyn Fn(&str) -> Result<Option<u32>, i32>;

/// The recording of the host of `testdata/host.sh`.
pub(crate) const HOST: &str = include_str!("../testdata/host.hex");

/// A recorded request, without its header, and the datagrams that answered it.
pub(crate) type Exchange = (u16, Vec<u8>, Vec<Vec<u8>>);

#[derive(Clone)]
pub(crate) struct Simulated {
    pub(crate) exchanges: Rc<Vec<Exchange>>,
    pub(crate) tamper: Rc<RefCell<Box<Tamper>>>,
    /// Error number of each new socket; 0 for success.
    pub(crate) no_netlink: i32,
    /// Interfaces whose speed was asked for, and the time that each query takes.
    pub(crate) asked: Rc<RefCell<Vec<String>>>,
    pub(crate) speed: Rc<Speed>,
    pub(crate) speed_takes: Duration,
    pub(crate) now: Rc<Cell<Duration>>,
    pub(crate) plain: Result<Plain, i32>,
    /// Number of calls of `send`, for all sockets.
    pub(crate) sends: Rc<Cell<usize>>,
}

pub(crate) fn unhex(line: &str) -> Vec<u8> {
    (0..line.len() / 2)
        .map(|i| u8::from_str_radix(&line[2 * i..2 * i + 2], 16).expect("hexadecimal"))
        .collect()
}

impl Simulated {
    /// Returns the recorded host.
    pub(crate) fn host() -> Simulated {
        let mut exchanges: Vec<Exchange> = Vec::new();
        for line in HOST.lines() {
            let bytes = unhex(&line[2..]);
            if line.starts_with('>') {
                let message = wire::messages(&bytes).next().expect("one request").expect("whole");
                exchanges.push((message.kind, message.payload.to_vec(), Vec::new()));
            } else {
                exchanges.last_mut().expect("a request before").2.push(bytes);
            }
        }
        Simulated {
            exchanges: Rc::new(exchanges),
            tamper: Rc::new(RefCell::new(Box::new(|_, _, _| {}))),
            no_netlink: 0,
            asked: Rc::default(),
            speed: Rc::new(|_| Ok(Some(10000))),
            speed_takes: Duration::ZERO,
            now: Rc::default(),
            plain: Err(libc::EPERM),
            sends: Rc::default(),
        }
    }

    /// Returns a kernel with changed deliveries.
    pub(crate) fn tampered(
        mut self,
        tamper: impl FnMut(usize, &[u8], &mut VecDeque<Delivery>) + 'static,
    ) -> Simulated {
        self.tamper = Rc::new(RefCell::new(Box::new(tamper)));
        self
    }
}

pub(crate) struct Replay {
    kernel: Simulated,
    queue: VecDeque<Delivery>,
}

/// Writes another sequence number into each message's header.
fn renumber(datagram: &mut [u8], sequence: u32) {
    let mut at = 0;
    while let Some(header) = datagram.get_mut(at..at + 16) {
        header[8..12].copy_from_slice(&sequence.to_ne_bytes());
        let len = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
        at += (len as usize).next_multiple_of(4);
    }
}

impl Channel for Replay {
    fn send(&mut self, requests: &[u8]) -> io::Result<()> {
        let sends = self.kernel.sends.get();
        self.kernel.sends.set(sends + 1);
        let mut replies = VecDeque::new();
        for request in wire::messages(requests) {
            let request = request.expect("requests are well-formed");
            let known = self
                .kernel
                .exchanges
                .iter()
                .find(|(kind, payload, _)| *kind == request.kind && payload[..] == *request.payload);
            // Requests that are not in the recording are refused.
            let mut refusal = Vec::new();
            let code = (-libc::EOPNOTSUPP).to_ne_bytes();
            wire::request(&mut refusal, libc::NLMSG_ERROR as u16, 0, 0, &code);
            for answer in known.map_or(&[refusal][..], |(_, _, answers)| answers) {
                let mut answer = answer.clone();
                renumber(&mut answer, request.sequence);
                replies.push_back(Ok(answer));
            }
        }
        (self.kernel.tamper.borrow_mut())(sends, requests, &mut replies);
        self.queue.extend(replies);
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8], _wait: bool) -> io::Result<usize> {
        match self.queue.pop_front() {
            Some(Ok(datagram)) => {
                let len = datagram.len().min(buffer.len());
                buffer[..len].copy_from_slice(&datagram[..len]);
                Ok(datagram.len())
            }
            Some(Err(code)) => Err(io::Error::from_raw_os_error(code)),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl Kernel for Simulated {
    type Channel = Replay;

    fn netlink(&self) -> io::Result<Replay> {
        match self.no_netlink {
            0 => Ok(Replay { kernel: self.clone(), queue: VecDeque::new() }),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }

    fn speed(&self, name: &str) -> io::Result<Option<u32>> {
        self.asked.borrow_mut().push(name.to_owned());
        self.now.set(self.now.get() + self.speed_takes);
        (self.speed)(name).map_err(io::Error::from_raw_os_error)
    }

    fn location(&self, _: &mut Vec<String>) -> Location {
        Location { boot: [7; 16], netns: 42 }
    }

    fn plain(&self) -> io::Result<Plain> {
        self.plain.clone().map_err(io::Error::from_raw_os_error)
    }

    fn elapsed(&self) -> Duration {
        self.now.get()
    }
}
