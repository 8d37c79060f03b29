//! Files of the virtual machine, fetched or made of what is fetched: kernel, modules, busybox.
//! They are kept in the target folder, and not installed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::command::{root, run};
use crate::install::is_root;
use crate::options::Options;

/// Modules of the kernel to load, with those that they depend on. rxe asks for a checksum by a name
/// that only `crc32_generic` has, and does not depend on it.
const MODULES: &[&str] = &["crc32_generic", "dummy", "ib_uverbs", "rdma_rxe"];
/// Parts of the kernel's package in which these are.
const PARTS: &[&str] = &[
    "./boot/vmlinuz-*",
    "*/modules.builtin",
    "*/kernel/crypto/*",
    "*/kernel/drivers/infiniband/*",
    "*/kernel/drivers/net/dummy.ko*",
    "*/kernel/lib/*",
    "*/kernel/net/*",
];

/// The machine's files.
pub(crate) struct Image {
    pub(crate) kernel: PathBuf,
    pub(crate) busybox: PathBuf,
    pub(crate) modules: PathBuf,
    /// Names of the modules, in the order in which they are loaded.
    pub(crate) order: Vec<String>,
}

impl Image {
    /// The one that is there from before, or a new one.
    pub(crate) fn get(options: Options) -> Result<Image, String> {
        let folder = root().join("target").join("vm");
        let recipe = format!("{MODULES:?} {PARTS:?}");
        let image = folder.join("image");
        if fs::read_to_string(image.join("recipe")).ok().as_deref() != Some(&recipe) {
            if options.no_install {
                return Err("the kernel's package was not fetched (--no-install)".into());
            }
            let part = folder.join(format!("image-{}", std::process::id()));
            let made = make(&part).and_then(|()| {
                fs::write(part.join("recipe"), &recipe).map_err(fault(&part))?;
                if image.exists() {
                    fs::remove_dir_all(&image).map_err(fault(&image))?;
                }
                fs::rename(&part, &image).map_err(fault(&image))
            });
            if made.is_err() {
                let _ = fs::remove_dir_all(&part);
            }
            made?;
        }
        let order = fs::read_to_string(image.join("order")).map_err(fault(&image.join("order")))?;
        Ok(Image {
            kernel: image.join("kernel"),
            busybox: image.join("busybox"),
            modules: image.join("modules"),
            order: order.lines().map(str::to_owned).collect(),
        })
    }
}

pub(crate) fn fault(path: &Path) -> impl Fn(std::io::Error) -> String + '_ {
    move |e| format!("{}: {e}", path.display())
}

fn make(folder: &Path) -> Result<(), String> {
    let (debs, parts, modules) = (folder.join("debs"), folder.join("parts"), folder.join("modules"));
    for f in [&debs, &parts, &modules] {
        fs::create_dir_all(f).map_err(fault(f))?;
    }
    let kernel = kernel_package()?;
    fetch(&debs, &[&kernel, "busybox-static"])?;
    for deb in files(&debs)? {
        let whole: &[&str] = &["./bin/busybox", "./usr/bin/busybox"];
        let name = deb.file_name().unwrap_or_default().to_string_lossy().into_owned();
        unpack(&deb, &parts, if name.starts_with("busybox") { whole } else { PARTS })?;
    }
    let all = tree(&parts)?;
    let find = |what: &str, wanted: &dyn Fn(&str) -> bool| {
        let named = |p: &&PathBuf| p.file_name().is_some_and(|n| wanted(&n.to_string_lossy()));
        all.iter().find(named).ok_or_else(|| format!("the packages have no {what}"))
    };
    let busybox = find("busybox", &|n| n == "busybox")?;
    fs::rename(busybox, folder.join("busybox")).map_err(fault(busybox))?;
    let builtin = find("modules.builtin", &|n| n == "modules.builtin")?;
    let builtin = fs::read_to_string(builtin).map_err(fault(builtin))?;
    let linux = find("kernel", &|n| n.starts_with("vmlinuz-"))?;
    let compressed = fs::read(linux).map_err(fault(linux))?;
    let out = folder.join("kernel");
    match payload(&compressed) {
        Some(payload) => {
            fs::write(folder.join("payload"), payload).map_err(fault(folder))?;
            unxz(&folder.join("payload"), &out)?;
            fs::remove_file(folder.join("payload")).map_err(fault(folder))?;
        }
        // It starts as it is, only more slowly.
        None => fs::write(&out, compressed).map_err(fault(&out))?,
    }
    let order = modules_of(&all, &builtin, &modules)?;
    fs::write(folder.join("order"), order.join("\n") + "\n").map_err(fault(folder))?;
    // 100 MB that nobody needs any more.
    fs::remove_dir_all(&parts).and_then(|()| fs::remove_dir_all(&debs)).map_err(fault(folder))
}

/// The package on which Debian's own name for its kernel depends.
fn kernel_package() -> Result<String, String> {
    let ask = || Command::new("apt-cache").args(["depends", "linux-image-amd64"]).output();
    let name = |text: &[u8]| {
        let text = String::from_utf8_lossy(text).into_owned();
        text.split_whitespace()
            .find(|w| w.starts_with("linux-image-") && *w != "linux-image-amd64")
            .map(str::to_owned)
    };
    let asked = ask().map_err(|e| format!("cannot start apt-cache, so this is no Debian: {e}"))?;
    if let Some(name) = name(&asked.stdout) {
        return Ok(name);
    }
    update()?;
    let asked = ask().map_err(|e| format!("cannot start apt-cache: {e}"))?;
    name(&asked.stdout).ok_or_else(|| "apt knows no package linux-image-amd64 (apt-get update)".into())
}

/// Brings apt's lists up to date, which only root can.
fn update() -> Result<(), String> {
    if !is_root() {
        return Err("apt's lists do not have what is needed (sudo apt-get update)".into());
    }
    run(Command::new("apt-get").arg("update").arg("-q"))
}

/// Fetches packages into a folder. Lists that are old name packages that are not there any more.
fn fetch(folder: &Path, packages: &[&str]) -> Result<(), String> {
    let download = || {
        // Without the setting root is told that the folder is not apt's.
        let settings = ["-q", "-o", "APT::Sandbox::User=root"];
        run(Command::new("apt-get").arg("download").args(settings).args(packages).current_dir(folder))
    };
    download().or_else(|_| {
        update()?;
        download()
    })
}

/// Takes parts out of a package.
fn unpack(deb: &Path, into: &Path, parts: &[&str]) -> Result<(), String> {
    let mut list = Command::new("dpkg-deb");
    list.arg("--fsys-tarfile").arg(deb).stdout(Stdio::piped());
    let mut list = list.spawn().map_err(|e| format!("cannot start dpkg-deb: {e}"))?;
    let archive = list.stdout.take().ok_or("dpkg-deb has no output")?;
    let mut tar = Command::new("tar");
    tar.args(["-x", "--wildcards", "--no-same-owner", "-C"]).arg(into).args(parts).stdin(archive);
    // A part that is not in this version's package is missed later, if it is needed.
    let _ = tar.stderr(Stdio::null()).status().map_err(|e| format!("cannot start tar: {e}"))?;
    let status = list.wait().map_err(|e| format!("dpkg-deb: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("dpkg-deb {}: {status}", deb.display())) }
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut all: Vec<PathBuf> =
        fs::read_dir(folder).map_err(fault(folder))?.flatten().map(|f| f.path()).collect();
    all.sort();
    Ok(all)
}

/// All files below a folder.
fn tree(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut all = Vec::new();
    for path in files(folder)? {
        if path.is_dir() && !path.is_symlink() {
            all.extend(tree(&path)?);
        } else {
            all.push(path);
        }
    }
    Ok(all)
}

/// The program xz, up to the end of the first stream: the kernel has something behind it.
fn unxz(from: &Path, to: &Path) -> Result<(), String> {
    let out = fs::File::create(to).map_err(fault(to))?;
    let input = fs::File::open(from).map_err(fault(from))?;
    run(Command::new("xz").args(["-d", "-c", "--single-stream"]).stdin(input).stdout(out))
}

/// Returns the kernel within one that is compressed by xz, found by the header of Linux's boot
/// protocol (from 2.08 on). qemu starts it at once; the other would unpack itself under emulation.
fn payload(kernel: &[u8]) -> Option<&[u8]> {
    let word = |at: usize| Some(u32::from_le_bytes(kernel.get(at..at + 4)?.try_into().ok()?) as usize);
    if kernel.get(0x202..0x206)? != b"HdrS" || word(0x206)? & 0xffff < 0x208 {
        return None;
    }
    let sectors = match *kernel.get(0x1f1)? {
        0 => 4,
        n => usize::from(n),
    };
    let start = (sectors + 1) * 512 + word(0x248)?;
    let payload = kernel.get(start..start.checked_add(word(0x24c)?)?)?;
    payload.starts_with(b"\xfd7zXZ\0").then_some(payload)
}

/// Puts the modules and those that they depend on into a folder, uncompressed. Their order.
fn modules_of(all: &[PathBuf], builtin: &str, into: &Path) -> Result<Vec<String>, String> {
    let files: BTreeMap<String, &PathBuf> = all
        .iter()
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?;
            let name = name.strip_suffix(".ko").or(name.strip_suffix(".ko.xz"))?;
            Some((name.replace('-', "_"), path))
        })
        .collect();
    let builtin: Vec<String> = builtin
        .lines()
        .filter_map(|l| Some(l.rsplit('/').next()?.strip_suffix(".ko")?.replace('-', "_")))
        .collect();
    let mut order = Vec::new();
    for name in MODULES {
        add(name, &files, &builtin, into, &mut order)?;
    }
    Ok(order)
}

fn add(
    name: &str,
    files: &BTreeMap<String, &PathBuf>,
    builtin: &[String],
    into: &Path,
    order: &mut Vec<String>,
) -> Result<(), String> {
    if order.iter().any(|n| n == name) || builtin.iter().any(|n| n == name) {
        return Ok(());
    }
    let file = files.get(name).ok_or_else(|| format!("the kernel's package has no module {name}"))?;
    let to = into.join(format!("{name}.ko"));
    if file.extension().is_some_and(|e| e == "xz") {
        unxz(file, &to)?;
    } else {
        fs::copy(file, &to).map_err(fault(file))?;
    }
    for needed in depends(&fs::read(&to).map_err(fault(&to))?) {
        add(&needed, files, builtin, into, order)?;
    }
    order.push(name.to_owned());
    Ok(())
}

/// The modules on which one depends, by the line of its section `.modinfo`.
fn depends(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|w| w == KEY) else { return Vec::new() };
    let rest = &module[at + KEY.len()..];
    let line = rest.split(|b| *b == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(line).replace('-', "_");
    names.split(',').filter(|n| !n.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_says_what_it_depends_on() {
        assert_eq!(
            depends(b"...\0license=GPL\0depends=ib_core,udp-tunnel\0retpoline=Y\0"),
            ["ib_core", "udp_tunnel"]
        );
        assert_eq!(depends(b"...\0depends=\0name=x\0"), Vec::<String>::new());
        assert_eq!(depends(b"nothing"), Vec::<String>::new());
    }

    #[test]
    fn the_kernel_is_found_within_a_compressed_one() {
        let mut kernel = vec![0; 0x250];
        kernel[0x1f1] = 1;
        kernel[0x202..0x206].copy_from_slice(b"HdrS");
        kernel[0x206..0x208].copy_from_slice(&0x20f_u16.to_le_bytes());
        kernel[0x248..0x24c].copy_from_slice(&16_u32.to_le_bytes());
        kernel[0x24c..0x250].copy_from_slice(&8_u32.to_le_bytes());
        kernel.resize(2 * 512 + 16, 0);
        assert_eq!(payload(&kernel), None, "it ends before its payload");
        kernel.extend(b"\xfd7zXZ\0ab-trailer");
        assert_eq!(payload(&kernel), Some(b"\xfd7zXZ\0ab".as_slice()));
        kernel[2 * 512 + 16] = 0x28;
        assert_eq!(payload(&kernel), None, "another compression");
        assert_eq!(payload(b"MZ"), None);
    }

    #[test]
    fn modules_come_behind_those_that_they_depend_on() {
        let folder = std::env::temp_dir().join(format!("netmod-modules-{}", std::process::id()));
        let into = folder.join("into");
        fs::create_dir_all(&into).expect("a folder");
        let module = |name: &str, depends: &str| {
            let path = folder.join(format!("{name}.ko"));
            fs::write(&path, format!("ELF\0depends={depends}\0")).expect("a file");
            path
        };
        let mut all = vec![
            module("rdma_rxe", "ib_core,ib-uverbs,udp_tunnel"),
            module("ib_uverbs", "ib_core"),
            module("ib_core", "configfs"),
            module("crc32_generic", ""),
            module("dummy", ""),
        ];
        let builtin = "kernel/fs/configfs/configfs.ko\n";
        let error = modules_of(&all, builtin, &into).expect_err("one is missing");
        assert!(error.contains("udp_tunnel"), "{error}");
        all.push(module("udp_tunnel", ""));
        let order = modules_of(&all, builtin, &into).expect("all are there");
        assert_eq!(order, ["crc32_generic", "dummy", "ib_core", "ib_uverbs", "udp_tunnel", "rdma_rxe"]);
        assert!(into.join("udp_tunnel.ko").is_file());
        fs::remove_dir_all(&folder).expect("it can be removed");
    }
}
