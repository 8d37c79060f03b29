//! Hosts in one machine: network namespaces, with cables, switches and routers between them, in
//! which jobs run.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::jobs::launch::{self, OVER_TCP, Outcome, launcher_or_skip, run};

/// Two hosts, and whatever is between them; removed when dropped.
pub struct Hosts {
    job: &'static str,
    names: [String; 2],
    others: Vec<String>,
}

/// Runs a program that must succeed.
fn command(program: &str, args: &[&str]) -> Result<String, String> {
    let out = Command::new(program).args(args).output().map_err(|e| format!("{program}: {e}"))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    Err(format!("{program} {}: {}", args.join(" "), String::from_utf8_lossy(&out.stderr).trim()))
}

/// Runs `ip`.
///
/// # Errors
/// What it said.
pub fn ip(args: &[&str]) -> Result<String, String> {
    command("ip", args)
}

/// Something that this machine can or cannot do.
pub type Made<T = ()> = Result<T, String>;

impl Hosts {
    /// Two hosts without any cable. `job` is the program that jobs run.
    ///
    /// # Errors
    /// If this process may not make namespaces.
    pub fn new(job: &'static str) -> Made<Hosts> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let names = ["a", "b"].map(|x| format!("netmod-{}-{number}{x}", std::process::id()));
        let hosts = Hosts { job, names, others: Vec::new() };
        for name in &hosts.names {
            add_namespace(name)?;
        }
        Ok(hosts)
    }

    /// The hosts as `make` makes them, or none if the test is skipped.
    #[track_caller]
    pub fn or_skip(test: &str, job: &'static str, make: impl Fn(&mut Hosts) -> Made) -> Option<Hosts> {
        launcher_or_skip(test, "ip", "iproute2")?;
        let made = Hosts::new(job).and_then(|mut hosts| make(&mut hosts).map(|()| hosts));
        match made {
            Ok(hosts) => Some(hosts),
            Err(why) => {
                launch::skip(&format!("SKIPPED: {test}: no network namespaces ({why}); run it as root"));
                None
            }
        }
    }

    /// A host's namespace.
    pub fn name(&self, host: usize) -> &str {
        &self.names[host]
    }

    /// A further namespace: a switch or a router.
    ///
    /// # Errors
    /// As for [`Hosts::new`].
    pub fn other(&mut self) -> Made<String> {
        let name = format!("{}x{}", self.names[0], self.others.len());
        self.others.push(name.clone());
        add_namespace(&name)?;
        Ok(name)
    }

    /// A cable between an interface of each host with these addresses.
    ///
    /// # Errors
    /// Of `ip`.
    pub fn cable(&self, nics: [&str; 2], addresses: [&str; 2]) -> Made {
        plug([(&self.names[0], nics[0]), (&self.names[1], nics[1])])?;
        for host in 0..2 {
            self.address(host, nics[host], addresses[host])?;
        }
        Ok(())
    }

    /// Gives an interface of a host an address, and makes it go up.
    ///
    /// # Errors
    /// Of `ip`.
    pub fn address(&self, host: usize, nic: &str, address: &str) -> Made {
        give(&self.names[host], nic, address)
    }

    /// Runs `ip` in a host.
    ///
    /// # Errors
    /// What it said.
    pub fn ip(&self, host: usize, args: &[&str]) -> Made<String> {
        ip(&[&["-n", &self.names[host]], args].concat())
    }

    /// Limits what an interface sends, in Mb/s.
    ///
    /// # Errors
    /// Of `tc`.
    pub fn limit(&self, host: usize, nic: &str, mbit: u32) -> Made {
        let rate = format!("{mbit}mbit");
        let tbf = ["root", "tbf", "rate", &rate, "burst", "256kb", "latency", "20ms"];
        command("tc", &[&["-n", &self.names[host], "qdisc", "add", "dev", nic][..], &tbf].concat()).map(drop)
    }

    /// Sets a variable of the kernel in a host.
    ///
    /// # Errors
    /// Of `sysctl`.
    pub fn sysctl(&self, host: usize, setting: &str) -> Made {
        ip(&["netns", "exec", &self.names[host], "sysctl", "-q", "-w", setting]).map(drop)
    }

    /// Bytes that an interface of a host has received and sent.
    ///
    /// # Panics
    /// If there is no such interface.
    pub fn traffic(&self, host: usize, nic: &str) -> (u64, u64) {
        let text = self.ip(host, &["-j", "-s", "link", "show", "dev", nic]).expect("counters");
        let all: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let bytes = |way: &str| all[0]["stats64"][way]["bytes"].as_u64().expect("a counter");
        (bytes("rx"), bytes("tx"))
    }

    /// Runs a case over TCP with rank 0 on the first host and rank 1 on the second.
    pub fn run(&self, env: &[(&str, &str)], case: &[&str]) -> Outcome {
        self.run_ranks(1, &[env, &[OVER_TCP]].concat(), [&[], &[]], case)
    }

    /// Runs a case with the first `each` ranks on the first host and as many on the second, with
    /// `env` in all of them and `own` in those of each host.
    pub fn run_ranks(
        &self,
        each: u32,
        env: &[(&str, &str)],
        own: [&[(&str, &str)]; 2],
        case: &[&str],
    ) -> Outcome {
        static NMRUN: OnceLock<PathBuf> = OnceLock::new();
        let nmrun = NMRUN.get_or_init(|| launch::workspace_program(self.job, "netmod-pmi", "nmrun"));
        let [a, b] = [0, 1].map(|host| {
            let vars: Vec<String> = own[host].iter().map(|(n, v)| format!("export {n}='{v}'; ")).collect();
            format!("{}host={}", vars.concat(), self.names[host])
        });
        let script =
            format!("if [ $PMI_RANK -lt {each} ]; then {a}; else {b}; fi; exec ip netns exec $host \"$@\"");
        let mut c = Command::new(nmrun);
        c.args(["-n", &(2 * each).to_string(), "--nodes", "2"]);
        for (name, value) in env {
            c.args(["--env", &format!("{name}={value}")]);
        }
        c.args(["sh", "-c", &script, "sh", self.job]).args(case);
        run(&mut c)
    }
}

fn add_namespace(name: &str) -> Made {
    ip(&["netns", "add", name])?;
    ip(&["-n", name, "link", "set", "lo", "up"]).map(drop)
}

/// A cable between two interfaces of two namespaces, which are down yet.
///
/// # Errors
/// Of `ip`.
pub fn plug([a, b]: [(&str, &str); 2]) -> Made {
    ip(&["-n", a.0, "link", "add", a.1, "type", "veth", "peer", "name", b.1, "netns", b.0])?;
    for (name, nic) in [a, b] {
        // Without link-local addresses, which would be a second way by the same cable.
        ip(&["-n", name, "link", "set", nic, "addrgenmode", "none"])?;
    }
    Ok(())
}

/// Gives an interface of a namespace an address, and makes it go up.
///
/// # Errors
/// Of `ip`.
pub fn give(name: &str, nic: &str, address: &str) -> Made {
    let mut args = vec!["-n", name, "addr", "add", address, "dev", nic];
    if address.contains(':') {
        // At once, without looking for duplicates.
        args.push("nodad");
    }
    ip(&args)?;
    ip(&["-n", name, "link", "set", nic, "up"]).map(drop)
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in self.names.iter().chain(&self.others) {
            if let Err(e) = ip(&["netns", "del", name]) {
                eprintln!("{e}");
            }
        }
    }
}
