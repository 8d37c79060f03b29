//! `cargo xtask vm-test`: tests that need an RDMA device, in a small virtual machine. Its kernel
//! has one in software (`rdma_rxe`).
//!
//! Kernel and busybox are fetched as Debian packages and kept in the target folder. Programs come
//! from this host, with the libraries that they are linked with. qemu emulates the processor, so no
//! rights are needed. A list of steps runs there, or one command.

mod cpio;
mod image;
mod steps;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::command::{cargo, root};
use crate::install::{self, which};
use crate::options::Options;
use crate::skip::NO_SKIP;
use cpio::Archive;
use image::{Image, fault};
use steps::STEPS;

/// Seconds after which the machine is ended.
const LIMIT: u32 = 780;
/// Seconds after which a step is ended. An emulated machine on a busy host is slow.
const STEP_LIMIT: u32 = 240;
/// Programs of this host that are brought along.
const PROGRAMS: &[&str] = &[
    "ip",
    "rdma",
    "setpriv",
    "ibv_devinfo",
    "ibv_rc_pingpong",
    "ibv_srq_pingpong",
    "ibv_ud_pingpong",
    "ibv_xsrq_pingpong",
];
/// Integration tests that are brought along: package, test, and the program's name there.
const TESTS: &[(&str, &str, &str)] = &[
    ("netmod-libibverbs-sys", "real", "libibverbs-real"),
    ("netmod-hca-ibv", "real", "hca-ibv-real"),
    ("netmod-tests", "conformance_ibv", "conformance"),
];
/// Programs of the workspace that are brought along: package, and name.
const BINARIES: &[(&str, &str)] =
    &[("netmod-pmi", "nmrun"), ("netmod-tests", "netmod-job"), ("netmod-perf", "netmod-perf")];

/// Options of `vm-test` beyond the common ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// True if the machine opens a shell on this terminal after the run.
    pub(crate) keep: bool,
    /// Command to run instead of the steps; a lone word is a line for the shell.
    pub(crate) run: Vec<String>,
    /// Files to bring along, into /usr/bin.
    pub(crate) files: Vec<PathBuf>,
}

/// The machine's files, which need no build.
pub(crate) struct Machine(Image);

pub(crate) fn machine(options: Options) -> Result<Machine, String> {
    let without = |why: String| format!("{} ({why})", install::RDMA);
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Err(without("the virtual machine is one of x86-64 Linux, as its host must be".into()));
    }
    Ok(Machine(Image::get(options).map_err(without)?))
}

/// Runs the job, and returns the guest's status.
pub(crate) fn job(options: Options, asked: &Asked) -> Result<u8, String> {
    let missing = install::install(options, install::VM)?;
    if !missing.is_empty() {
        return Err(format!("cannot test {}", missing.join("; ")));
    }
    machine(options)?.test(asked, &|package, target| built(package, target))
}

impl Machine {
    /// Runs the tests there, or what is asked for. `find` builds or finds the program of a package
    /// and a target, as `test real`.
    ///
    /// # Errors
    /// If a program is missing, or the machine does not run.
    pub(crate) fn test(&self, asked: &Asked, find: &Find<'_>) -> Result<u8, String> {
        let mut files = Files::new();
        for program in PROGRAMS {
            let path = which(program).ok_or_else(|| format!("{program} is not installed"))?;
            files.program(&path, program)?;
        }
        for (package, test, name) in TESTS {
            let program = find(package, &format!("test {test}"))?;
            for commands in STEPS.iter().filter_map(|(_, c)| c.strip_prefix(name)) {
                names_tests(&program, commands)?;
            }
            files.program(&program, name)?;
        }
        for (package, name) in BINARIES {
            files.program(&find(package, &format!("bin {name}"))?, name)?;
        }
        for path in &asked.files {
            let name = path.file_name().ok_or_else(|| format!("{} is no file", path.display()))?;
            files.program(path, &name.to_string_lossy())?;
        }
        files.driver()?;
        files.system(&self.0)?;
        files.archive.file("/job", 0o644, script(&asked.run).as_bytes());
        if asked.keep {
            files.archive.file("/keep", 0o644, b"");
        }
        self.boot(&files.archive.finish(), asked.keep)
    }

    fn boot(&self, archive: &[u8], keep: bool) -> Result<u8, String> {
        let folder = root().join("target").join("vm");
        sweep(&folder);
        let own = |name: &str| folder.join(format!("{name}-{}", std::process::id()));
        let (disk, verdict) = (own("initrd"), own("verdict"));
        fs::write(&disk, archive).map_err(fault(&disk))?;
        let start = Instant::now();
        eprintln!("xtask: starting the virtual machine ({} MiB of files)", archive.len() >> 20);
        let ended = self.qemu(&disk, &verdict, keep);
        let said = fs::read_to_string(&verdict).unwrap_or_default();
        let _ = fs::remove_file(&verdict);
        fs::remove_file(&disk).map_err(fault(&disk))?;
        let ended = ended?;
        eprintln!("xtask: {:.0} s", start.elapsed().as_secs_f64());
        judge(&said, ended)
    }

    /// Runs qemu, shows what the machine prints, and returns qemu's status.
    fn qemu(&self, disk: &Path, verdict: &Path, keep: bool) -> Result<Option<i32>, String> {
        // Ends the machine even if this program is killed.
        let mut command = Command::new("timeout");
        let limit = if keep { 0 } else { LIMIT };
        command.args(["--foreground", "--kill-after=5", &limit.to_string(), "qemu-system-x86_64"]);
        command.args(["-machine", "q35", "-accel", "tcg,thread=multi,tb-size=256", "-cpu", "qemu64,+rdrand"]);
        command.args(["-smp", "2", "-m", "1024", "-nodefaults", "-no-user-config", "-no-reboot"]);
        command.args(["-display", "none", "-monitor", "none", "-net", "none", "-serial", "stdio"]);
        command.arg("-serial").arg(format!("file:{}", verdict.display()));
        command.arg("-kernel").arg(&self.0.kernel).arg("-initrd").arg(disk);
        command.args(["-append", "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on"]);
        let fault = |e: std::io::Error| format!("cannot run qemu-system-x86_64: {e}");
        if keep {
            return Ok(command.status().map_err(fault)?.code());
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(fault)?;
        let mut output = BufReader::new(child.stdout.take().ok_or("qemu has no output")?);
        let mut line = Vec::new();
        while output.read_until(b'\n', &mut line).map_err(fault)? > 0 {
            let text = String::from_utf8_lossy(&line);
            let mut out = std::io::stdout().lock();
            // Nobody reads it any more: the machine goes on all the same.
            let _ = writeln!(out, "{}", text.trim_end_matches(['\r', '\n'])).and_then(|()| out.flush());
            line.clear();
        }
        Ok(child.wait().map_err(fault)?.code())
    }
}

/// Removes what killed runs of this program have left. Names end with `-` and the process id.
fn sweep(folder: &Path) {
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|f| f.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let owner = name.rsplit_once('-').and_then(|(_, n)| n.parse::<u32>().ok());
        if owner.is_some_and(|n| !Path::new("/proc").join(n.to_string()).exists()) {
            // An entry that cannot be removed stays, and is in nobody's way.
            let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        }
    }
}

/// Returns the guest's status, from its second serial line and the status of qemu or `timeout`.
fn judge(said: &str, ended: Option<i32>) -> Result<u8, String> {
    let said = said.trim();
    if let Some(status) = said.strip_prefix("exit ").and_then(|n| n.parse().ok()) {
        return Ok(status);
    }
    if let Some(what) = said.strip_prefix("setup ") {
        return Err(format!("the virtual machine could not {what}; what it said is above"));
    }
    match ended {
        Some(124 | 137) => Err(format!("the virtual machine was ended after {LIMIT} s")),
        Some(0) => Err("the virtual machine has ended without a verdict: its kernel has failed".into()),
        Some(n) => Err(format!("qemu-system-x86_64 has ended with status {n}; what it said is above")),
        None => Err("qemu-system-x86_64 was killed".into()),
    }
}

/// Returns the script for the machine's shell.
fn script(run: &[String]) -> String {
    let quoted = |s: &str| format!("'{}'", s.replace('\'', "'\\''"));
    // The shell's own `ip` is another one. What tests need is there, or the machine is of no use.
    let mut text = format!("ip() {{ /usr/bin/ip \"$@\"; }}\nexport {NO_SKIP}=1\n");
    match run {
        [] => {}
        [line] => return text + line + "\n",
        words => return text + &words.iter().map(|w| quoted(w)).collect::<Vec<_>>().join(" ") + "\n",
    }
    text += "failed=0\n";
    for (name, commands) in STEPS {
        let (name, commands) = (quoted(name), quoted(commands));
        text +=
            &format!("read -r at _ </proc/uptime; echo vm: {name}; timeout {STEP_LIMIT} sh -c {commands}\n");
        text += "status=$?; read -r now _ </proc/uptime\n";
        text += "took=\"$(echo \"$now $at\" | awk '{ printf \"%.1f\", $1 - $2 }') s\"\n";
        text += &format!("if [ $status = 0 ]; then echo vm: {name}: ok, \"$took\"\n");
        text += &format!("else echo vm: {name}: FAILED with status $status, \"$took\"; failed=1; fi\n");
    }
    text + "exit $failed\n"
}

/// Returns the path of a program, by its package and target.
pub(crate) type Find<'a> = dyn Fn(&str, &str) -> Result<PathBuf, String> + 'a;

/// Has cargo build a program, and returns its path.
fn built(package: &str, target: &str) -> Result<PathBuf, String> {
    let what = format!("{target} of {package}");
    let (kind, name) = target.split_once(' ').unwrap_or(("lib", target));
    let mut command = cargo();
    command.args(if kind == "test" { &["test", "--no-run"][..] } else { &["build"] });
    command.args(["--package", package, &format!("--{kind}"), name, "--quiet", "--message-format=json"]);
    eprintln!("xtask: building {what}");
    let done = command.stderr(Stdio::inherit()).output().map_err(|e| format!("cannot start cargo: {e}"))?;
    if !done.status.success() {
        return Err(format!("{what} does not build"));
    }
    let text = String::from_utf8_lossy(&done.stdout);
    // The programs of the package are built with a test of it, and named in any order.
    let found = text.lines().find_map(|message| executable(message, name));
    found.ok_or_else(|| format!("cargo names no program of {what}"))
}

/// Checks that a program has the tests that it is asked for: one that finds none reports success.
fn names_tests(program: &Path, asked: &str) -> Result<(), String> {
    let done = Command::new(program).args(asked.split_whitespace()).arg("--list").output();
    let done = done.map_err(|e| format!("cannot run {}: {e}", program.display()))?;
    let listed = String::from_utf8_lossy(&done.stdout);
    if done.status.success() && listed.lines().any(|l| l.ends_with(": test")) {
        return Ok(());
    }
    Err(format!("{} has no test for a step's `{}`; was one renamed?", program.display(), asked.trim()))
}

/// Returns the program that a message of cargo's names, if it is of this target.
fn executable(message: &str, target: &str) -> Option<PathBuf> {
    if !message.contains(&format!("\"name\":\"{target}\"")) {
        return None;
    }
    let (_, rest) = message.split_once("\"executable\":\"")?;
    rest.split('"').next().map(PathBuf::from)
}

/// The machine's files.
struct Files {
    archive: Archive,
    /// Libraries in the archive.
    there: BTreeSet<String>,
}

impl Files {
    fn new() -> Files {
        let mut archive = Archive::new();
        for folder in ["/proc", "/sys", "/dev", "/tmp", "/run", "/root", "/usr/bin", "/usr/sbin"] {
            archive.folder(folder);
        }
        for folder in ["bin", "sbin", "lib", "lib64"] {
            archive.link(&format!("/{folder}"), &format!("usr/{folder}"));
        }
        Files { archive, there: BTreeSet::new() }
    }

    /// Adds a program, with the libraries that it is linked with.
    fn program(&mut self, path: &Path, name: &str) -> Result<(), String> {
        self.archive.file(&format!("/usr/bin/{name}"), 0o755, &fs::read(path).map_err(fault(path))?);
        self.libraries(path)
    }

    /// Adds a library, under its path on this host.
    fn library(&mut self, path: &Path) -> Result<(), String> {
        let place = place(path);
        if self.there.insert(place.clone()) {
            self.archive.file(&place, 0o755, &fs::read(path).map_err(fault(path))?);
        }
        Ok(())
    }

    /// Adds the libraries that the loader would load with a program or library.
    fn libraries(&mut self, of: &Path) -> Result<(), String> {
        let said = Command::new("ldd").arg(of).output().map_err(|e| format!("cannot start ldd: {e}"))?;
        for library in
            linked(&String::from_utf8_lossy(&said.stdout)).map_err(|l| format!("{}: {l}", of.display()))?
        {
            self.library(&library)?;
        }
        Ok(())
    }

    /// Adds libibverbs's driver of rxe, and the file by which it is found.
    fn driver(&mut self) -> Result<(), String> {
        let folders = fs::read_dir("/usr/lib").map_err(|e| format!("/usr/lib: {e}"))?.flatten();
        let found = folders.filter_map(|f| fs::read_dir(f.path().join("libibverbs")).ok());
        let found = found.flat_map(|f| f.flatten().map(|f| f.path()));
        let name = |p: &PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("librxe-"));
        let driver =
            found.into_iter().find(name).ok_or("libibverbs has no driver rxe (ibverbs-providers)")?;
        self.library(&driver)?;
        self.libraries(&driver)?;
        let file = Path::new("/etc/libibverbs.d/rxe.driver");
        self.archive.file("/etc/libibverbs.d/rxe.driver", 0o644, &fs::read(file).map_err(fault(file))?);
        Ok(())
    }

    fn system(&mut self, image: &Image) -> Result<(), String> {
        self.archive.file(
            "/usr/bin/busybox",
            0o755,
            &fs::read(&image.busybox).map_err(fault(&image.busybox))?,
        );
        self.archive.file("/modules/order", 0o644, (image.order.join("\n") + "\n").as_bytes());
        for name in &image.order {
            let module = image.modules.join(format!("{name}.ko"));
            self.archive.file(
                &format!("/modules/{name}.ko"),
                0o644,
                &fs::read(&module).map_err(fault(&module))?,
            );
        }
        self.archive.file("/etc/passwd", 0o644, b"root:x:0:0:root:/root:/bin/sh\n");
        self.archive.file("/etc/hosts", 0o644, b"127.0.0.1 localhost\n");
        self.archive.file("/init", 0o755, include_bytes!("init.sh"));
        Ok(())
    }
}

/// Returns the path of a file of this host in the machine, whose root folders are links to /usr.
fn place(path: &Path) -> String {
    let path = path.to_string_lossy();
    let of_root = ["/lib/", "/lib64/", "/bin/", "/sbin/"].iter().any(|f| path.starts_with(f));
    if of_root { format!("/usr{path}") } else { path.into_owned() }
}

/// Returns the libraries that `ldd` names.
///
/// # Errors
/// The line of a library that it has not found.
fn linked(said: &str) -> Result<Vec<PathBuf>, String> {
    let mut all = Vec::new();
    for line in said.lines().map(str::trim) {
        if line.ends_with("not found") {
            return Err(line.into());
        }
        let path = line.split_once("=> ").map_or(line, |(_, path)| path);
        let path = path.split(" (").next().unwrap_or_default();
        if path.starts_with('/') && line.contains(" (0x") {
            all.push(path.into());
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
