//! Records the kernel's netlink replies for tests on other hosts: `record [INTERFACE FROM TO]...`.
//!
//! Lines with `>` are requests, those with `<` the datagrams that answered the last one, in
//! hexadecimal.

use std::error::Error;
use std::io;
use std::time::Duration;

use netmod_matching::{Location, Query, Routes};
use netmod_nics::{Channel, Found, Kernel, Linux, Lookups, Plain, Socket};

/// The kernel, with a log of its netlink traffic.
struct Recorder(Linux);

struct Recording(Socket);

impl Channel for Recording {
    fn send(&mut self, requests: &[u8]) -> io::Result<()> {
        self.0.send(requests)?;
        println!("> {}", hex(requests));
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8], wait: bool) -> io::Result<usize> {
        let len = self.0.receive(buffer, wait)?;
        println!("< {}", hex(&buffer[..len.min(buffer.len())]));
        Ok(len)
    }
}

impl Kernel for Recorder {
    type Channel = Recording;

    fn netlink(&self) -> io::Result<Recording> {
        Ok(Recording(self.0.netlink()?))
    }

    fn speed(&self, name: &str) -> io::Result<Option<u32>> {
        self.0.speed(name)
    }

    fn location(&self, notes: &mut Vec<String>) -> Location {
        self.0.location(notes)
    }

    fn plain(&self) -> io::Result<Plain> {
        self.0.plain()
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let kernel = Recorder(Linux::new());
    let found = Found::by(&kernel)?;
    let mut lookups = Lookups::by(&kernel);
    let args: Vec<String> = std::env::args().skip(1).collect();
    for words in args.chunks(3) {
        let [name, from, to] = words else { return Err("a lookup is INTERFACE FROM TO".into()) };
        let nic = found
            .host
            .nics
            .iter()
            .find(|nic| nic.name == *name)
            .ok_or_else(|| format!("no interface {name}"))?;
        let query = Query { index: nic.index, from: from.parse()?, to: to.parse()? };
        let answers = lookups.ask(&[query]);
        eprintln!("(\"{name}\", \"{from}\", \"{to}\", Answer::{:?}),", answers[0]);
    }
    for nic in &found.host.nics {
        eprintln!("{nic:?}");
    }
    for note in found.notes.iter().chain(lookups.notes()) {
        eprintln!("note: {note}");
    }
    Ok(())
}
