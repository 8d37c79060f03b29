//! A Slurm of our own for tests of `srun`: two nodes on the loopback, in a temporary folder.
//!
//! Its daemons run in a PID namespace whose first process waits for the end of a pipe from this
//! process; whether a test passes, panics or is killed, the pipe ends, and with it all of them.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::launch::{find_program, skip};

/// Needs of the cluster: program and package.
const NEEDS: [(&str, &str); 6] = [
    ("srun", "slurm-client"),
    ("sinfo", "slurm-client"),
    ("slurmctld", "slurmctld"),
    ("slurmd", "slurmd"),
    ("munged", "munge"),
    ("unshare", "util-linux"),
];

/// Time in which the daemons must be ready for jobs.
const READY: Duration = Duration::from_secs(60);

/// A running Slurm.
#[derive(Debug)]
pub struct Cluster {
    conf: PathBuf,
    /// The daemons live as long as this is open.
    _life: Option<ChildStdin>,
    _first: Child,
}

/// The Slurm of this test program, started when first asked for; none if the test is skipped.
///
/// # Panics
/// If it does not start; if it cannot and `NETMOD_TEST_NO_SKIP=1`.
#[track_caller]
pub fn cluster_or_skip(test: &str) -> Option<&'static Cluster> {
    static CLUSTER: OnceLock<Result<Cluster, String>> = OnceLock::new();
    for (program, package) in NEEDS {
        // Daemons are not in everybody's path.
        if find_program(program).is_none() && !PathBuf::from("/usr/sbin").join(program).is_file() {
            skip(&format!("SKIPPED: {test}: {program} not installed (apt-get install {package})"));
            return None;
        }
    }
    if !is_allowed() {
        skip(&format!("SKIPPED: {test}: Slurm's daemons need root and a PID namespace (run as root)"));
        return None;
    }
    match CLUSTER.get_or_init(Cluster::start) {
        Ok(cluster) => Some(cluster),
        Err(why) => panic!("{test}: no Slurm: {why}"),
    }
}

/// Returns true if this process may do what the cluster needs.
fn is_allowed() -> bool {
    let root = Command::new("id").arg("-u").output().is_ok_and(|o| o.stdout.trim_ascii() == b"0");
    let mut unshare = Command::new("unshare");
    unshare.args(["--fork", "--pid", "--mount-proc", "true"]).stderr(Stdio::null());
    root && unshare.status().is_ok_and(|status| status.success())
}

/// Three ports that are free now. The kernel gives ports from 32768 on to whoever asks for any; it
/// could give these away until the daemons take them.
fn free_ports() -> std::io::Result<[u16; 3]> {
    let first = 10_000 + (std::process::id() % 20_000) as u16;
    let free = (first..32_768).filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    let ports: Vec<u16> = free.take(3).collect();
    ports.try_into().map_err(|_| std::io::Error::other(format!("no three free ports from {first} on")))
}

impl Cluster {
    fn start() -> Result<Cluster, String> {
        let problem = |what: &'static str| move |e: std::io::Error| format!("{what}: {e}");
        let dir = std::env::temp_dir().join(format!("netmod-slurm-{}", std::process::id()));
        for part in ["state", "spool.n1", "spool.n2", "tmp.n1", "tmp.n2"] {
            std::fs::create_dir_all(dir.join(part)).map_err(problem("its folder"))?;
        }
        let host = Command::new("hostname").arg("-s").output().map_err(problem("hostname"))?;
        let [control, node1, node2] = free_ports().map_err(problem("free ports"))?;
        let conf = include_str!("slurm.conf")
            .replace("@DIR@", &dir.display().to_string())
            .replace("@HOST@", String::from_utf8_lossy(&host.stdout).trim())
            .replace("@CONTROL@", &control.to_string())
            .replace("@NODE1@", &node1.to_string())
            .replace("@NODE2@", &node2.to_string());
        std::fs::write(dir.join("slurm.conf"), conf).map_err(problem("slurm.conf"))?;
        let random = std::fs::File::open("/dev/urandom").map_err(problem("/dev/urandom"))?;
        let mut key = Vec::new();
        std::io::Read::read_to_end(&mut std::io::Read::take(random, 1024), &mut key)
            .map_err(problem("/dev/urandom"))?;
        write_secret(&dir.join("munge.key"), &key).map_err(problem("munge.key"))?;
        let log = std::fs::File::create(dir.join("cluster.out")).map_err(problem("its log"))?;
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        let mut first = Command::new("unshare")
            .args(["--fork", "--pid", "--mount-proc", "--kill-child", "sh", "-c"])
            .args([include_str!("cluster.sh"), "cluster"])
            .arg(&dir)
            .env("PATH", path)
            .stdin(Stdio::piped())
            .stdout(log.try_clone().map_err(problem("its log"))?)
            .stderr(log)
            .spawn()
            .map_err(problem("unshare"))?;
        let life = first.stdin.take();
        let cluster = Cluster { conf: dir.join("slurm.conf"), _life: life, _first: first };
        let end = Instant::now() + READY;
        while cluster.idle_nodes() != 2 {
            if Instant::now() > end {
                let say = |name: &str| {
                    let text = std::fs::read_to_string(dir.join(name)).unwrap_or_default();
                    let tail: Vec<&str> = text.lines().rev().take(10).collect();
                    format!("\n{name}:\n{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"))
                };
                let logs =
                    ["cluster.out", "munged.out", "slurmctld.out", "slurmctld.log", "slurmd.n1.log"].map(say);
                return Err(format!("its nodes are not idle after {READY:?}:{}", logs.concat()));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(cluster)
    }

    fn idle_nodes(&self) -> u32 {
        let mut sinfo = Command::new("sinfo");
        sinfo.args(["-h", "-t", "idle", "-o", "%D"]).env("SLURM_CONF", &self.conf).stdin(Stdio::null());
        let Ok(output) = sinfo.output() else { return 0 };
        String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or(0)
    }

    /// `srun`, to be given options and a program.
    pub fn srun(&self) -> Command {
        let mut srun = Command::new("srun");
        srun.env("SLURM_CONF", &self.conf);
        // An allocation that the tests themselves run in is not meant.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("SLURM_") && name != "SLURM_CONF" {
                srun.env_remove(name);
            }
        }
        srun
    }
}

/// Writes a file that only its owner may read, as munge demands.
fn write_secret(path: &std::path::Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    std::io::Write::write_all(&mut file, bytes)
}
