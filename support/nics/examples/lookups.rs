//! Lists this host's interfaces and measures route lookups: `lookups [COUNT [ROUNDS]]`.

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use netmod_matching::{Query, Routes};
use netmod_nics::{Found, Lookups};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let count: usize = args.next().map_or(Ok(900), |a| a.parse())?;
    let rounds: usize = args.next().map_or(Ok(101), |a| a.parse())?;
    let begun = Instant::now();
    let found = Found::here()?;
    let took = begun.elapsed();
    println!("{} interfaces in {took:?}", found.host.nics.len());
    for nic in found.host.nics.iter().take(40) {
        let addresses: Vec<String> = nic.addresses.iter().map(|a| format!("{}/{}", a.ip, a.prefix)).collect();
        let speed = nic.speed.map_or_else(|| "unknown speed".to_owned(), |s| format!("{s} Mb/s"));
        println!(
            "{} {} {:?} {speed} mtu {}{}{} {}",
            nic.index,
            nic.name,
            nic.kind,
            nic.mtu,
            if nic.up { " up" } else { "" },
            if nic.carrier { " carrier" } else { "" },
            addresses.join(" ")
        );
    }
    let sources = found.host.nics.iter().flat_map(|nic| nic.addresses.iter().map(|a| (nic.index, a.ip)));
    let queries: Vec<Query> = sources
        .cycle()
        .take(count)
        .enumerate()
        .map(|(i, (index, from))| {
            // Different destinations, since the kernel caches recent ones.
            let low = (i % 250) as u8 + 2;
            let to = if from.is_ipv4() {
                [10, 1, 0, low].into()
            } else {
                [0xfd00, 0, 0, 0, 0, 0, 0, u16::from(low)].into()
            };
            Query { index, from, to }
        })
        .collect();
    let mut lookups = Lookups::here();
    let mut times = Vec::new();
    for _ in 0..rounds {
        let begun = Instant::now();
        black_box(lookups.ask(black_box(&queries)));
        times.push(begun.elapsed());
    }
    times.sort();
    if let (Some(least), Some(median)) = (times.first(), times.get(times.len() / 2)) {
        println!("{} route lookups: median {median:?}, least {least:?} of {rounds}", queries.len());
    }
    for note in found.notes.iter().chain(lookups.notes()) {
        println!("note: {note}");
    }
    Ok(())
}
