//! The transport that a library uses, as the library itself says it.

use super::library::{Library, Netmod};

/// Returns what carries the messages of a library that was started with `proof`, by its output.
///
/// # Errors
/// If it is another transport than the wanted one, or the library does not say it.
pub(crate) fn used(library: Library, netmod: Netmod, output: &str) -> Result<String, String> {
    let told = told(library, output);
    let name = library.name();
    let Some(told) = told else {
        return Err(format!("{name} does not say its transport; its output is {:?}", shorten(output)));
    };
    let (shm, tcp) = kinds(&told);
    if (shm, tcp) == (netmod == Netmod::Shm, netmod == Netmod::Tcp) {
        Ok(told)
    } else {
        Err(format!("{name} uses {told} where {} is wanted", netmod.name()))
    }
}

/// Returns the words of an output about the transport between two ranks.
fn told(library: Library, output: &str) -> Option<String> {
    let after = |mark: &'static str| output.lines().filter_map(move |line| Some(line.split_once(mark)?.1));
    match library {
        Library::Ours => {
            let netmods = after("netmods: ").next()?.split(';').next()?;
            Some(netmods.to_owned())
        }
        Library::Intel => {
            let provider =
                after("libfabric provider: ").next().map(|name| format!("libfabric {}", name.trim()));
            let shared = after("shm segment size").next().map(|_| "shm segments".to_owned());
            join(shared.into_iter().chain(provider))
        }
        // UCX reports the lanes of messages with tags to each kind of peer.
        Library::Mpich => {
            let lanes = after("intra-node cfg#").filter_map(|rest| {
                let (_, lanes) = rest.split_once("tag(")?;
                Some(format!("UCX {}", lanes.split(')').next()?))
            });
            join(lanes)
        }
        Library::OpenMpi => {
            let names = after("mca: bml: Using ").filter_map(|rest| rest.split_whitespace().next());
            join(names.filter(|name| *name != "self").map(|name| format!("btl {name}")))
        }
    }
}

/// Joins the different ones of some names.
fn join(names: impl Iterator<Item = String>) -> Option<String> {
    let mut all: Vec<String> = names.collect();
    all.sort();
    all.dedup();
    (!all.is_empty()).then(|| all.join(" and "))
}

/// Returns true for shared memory, and for TCP, if a transport is of that kind.
fn kinds(told: &str) -> (bool, bool) {
    let words = told.split(|c: char| !c.is_ascii_alphanumeric());
    let (mut shm, mut tcp) = (false, false);
    for word in words {
        shm |= ["shm", "sm", "sysv", "posix", "cma", "xpmem", "knem"].contains(&word);
        tcp |= word == "tcp";
    }
    (shm, tcp)
}

fn shorten(output: &str) -> String {
    output.chars().take(500).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str =
        "netmod-mpi: rank 0:  INFO netmod-mpi 0.1.0 in /l.so: rank 0 of 2; netmods: shm; launcher: x";
    const INTEL: &str =
        "[0] MPI startup(): shm segment size (1068 MB per rank) * (2 local ranks) = 2136 MB total";
    const INTEL_TCP: &str = "[0] MPI startup(): libfabric version: 2.4.0-impi\n\
        [0] MPI startup(): libfabric provider: tcp\n";
    const MPICH: &str = "[1.0] [vm:1:0] ucp_worker.c:1912 UCX  INFO    ucp_context_0 self cfg#0 tag(self/memory \
        tcp/eth0)  rma(self/memory)\n[1.0] [vm:1:0] ucp_worker.c:1912 UCX  INFO    ucp_context_0 intra-node cfg#1 \
        tag(sysv/memory cma/memory)  rma(sysv/memory posix/memory)";
    const OPEN: &str = "[vm:1] mca: bml: Using self btl for send to [[5,1],0] on node vm\n\
        [vm:1] mca: bml: Using tcp btl for send to [[5,1],1] on node vm\n\
        [vm:2] mca: bml: Using tcp btl for send to [[5,1],0] on node vm";

    #[test]
    fn each_library_tells_its_transport() {
        use Library::{Intel, Mpich, OpenMpi, Ours};
        let used = |library, netmod, output| used(library, netmod, output).expect("the wanted one");
        assert_eq!(used(Ours, Netmod::Shm, OURS), "shm");
        assert_eq!(used(Intel, Netmod::Shm, INTEL), "shm segments");
        assert_eq!(used(Intel, Netmod::Tcp, INTEL_TCP), "libfabric tcp");
        assert_eq!(used(Mpich, Netmod::Shm, MPICH), "UCX sysv/memory cma/memory");
        assert_eq!(used(OpenMpi, Netmod::Tcp, OPEN), "btl tcp");
    }

    #[test]
    fn another_transport_and_silence_are_errors() {
        let both = format!("{INTEL}\n{INTEL_TCP}");
        for (library, netmod, output, word) in [
            (Library::Ours, Netmod::Tcp, OURS, "ours uses shm where tcp is wanted"),
            (Library::Intel, Netmod::Tcp, INTEL, "where tcp is wanted"),
            (Library::Intel, Netmod::Tcp, &both, "libfabric tcp and shm segments where tcp is wanted"),
            (Library::Mpich, Netmod::Tcp, MPICH, "cma/memory where tcp"),
            (Library::OpenMpi, Netmod::Shm, OPEN, "btl tcp where shm"),
            (Library::OpenMpi, Netmod::Shm, INTEL, "does not say"),
        ] {
            let why = used(library, netmod, output).expect_err("not the wanted one");
            assert!(why.contains(word), "{why}");
        }
    }
}
