//! Packages of an installation whose libraries are empty.

use super::*;

/// Folders for the packages of one test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> (Place, Asked) {
        let dir = std::env::temp_dir().join(format!("netmod-package-{name}-{}", std::process::id()));
        let (from, to) = (dir.join("from"), dir.join("to"));
        std::fs::create_dir_all(&from).expect("a folder");
        let source = from.join("empty.c");
        std::fs::write(&source, "#include <stdlib.h>\nint main(void) { return abs(0); }\n").expect("a file");
        for (name, shared) in [
            ("libnetmod_mpich.so", true),
            ("libnetmod_mpi_standard.so", true),
            ("nmrun", false),
            ("mpivars", false),
        ] {
            let mut compile = Command::new("cc");
            compile.args(if shared { &["-shared", "-fPIC"][..] } else { &[] });
            output(compile.arg(&source).arg("-o").arg(from.join(name))).expect("a program");
        }
        let asked = Asked { to: Some(to), from: Some(from) };
        (Place(dir), asked)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A folder that is left does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_wheel_has_files_alone_and_their_sums() {
    let (place, asked) = Place::new("wheel");
    let made = wheel::make(&asked).expect("a wheel");
    let name = made.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(name.starts_with(&format!("netmod_mpi-{VERSION}-py3-none-manylinux_2_")), "{name}");
    let twice = std::fs::read(&made).expect("a wheel");
    assert_eq!(std::fs::read(wheel::make(&asked).expect("a wheel")).expect("a wheel"), twice, "as before");
    let look = "\
import base64, hashlib, sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
names = set(archive.namelist())
for line in archive.read([n for n in names if n.endswith('/RECORD')][0]).decode().splitlines():
    name, digest, size = line.rsplit(',', 2)
    names.remove(name)
    if not name.endswith('/RECORD'):
        data = archive.read(name)
        own = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()
        assert digest == 'sha256=' + own and int(size) == len(data), name
assert not names, names
for info in archive.infolist():
    mode = info.external_attr >> 16
    assert mode >> 12 == 8, info.filename
    print('x' if mode & 0o111 else '-', info.filename.partition('.data/data/')[2] or info.filename)
print(archive.read([n for n in archive.namelist() if n.endswith('/libmpi.so')][0]).decode())
";
    let told = output(Command::new("python3").args(["-c", look]).arg(&made)).expect("a sound wheel");
    for line in [
        "x bin/mpiexec",
        "x bin/nmrun",
        "x bin/mpicc",
        "x bin/mpif90",
        "x lib/libmpi.so.12",
        "x lib/libmpich.so.12",
        "- lib/libmpi.so",
        "- lib/pkgconfig/mpi.pc",
        "- include/mpi.h",
        "INPUT(libmpi.so.12)",
    ] {
        assert!(told.lines().any(|l| l == line), "{line}: {told}");
    }
    assert!(entries(&asked.to().expect("a folder")).expect("entries").len() == 1, "no stage is left");
    drop(place);
}

#[test]
fn an_archive_works_where_it_is_unpacked() {
    let (place, asked) = Place::new("dist");
    let made = dist::make(&asked).expect("an archive");
    let other = place.0.join("other");
    make_folder(&other).expect("a folder");
    let to = asked.to().expect("a folder");
    let mut sum = format!("{}", made.file_name().expect("a name").display());
    sum.push_str(".sha256");
    output(Command::new("sha256sum").current_dir(&to).args(["--check", &sum])).expect("the archive's sum");
    output(Command::new("tar").arg("-xzf").arg(&made).arg("-C").arg(&other)).expect("unpacked");
    let [prefix] = &entries(&other).expect("entries")[..] else { panic!("one folder") };
    let sums = "share/doc/netmod-mpi/SHA256SUMS";
    output(Command::new("sha256sum").current_dir(prefix).args(["--check", sums])).expect("the files' sums");
    output(&mut Command::new(prefix.join("bin/mpiexec"))).expect("the launcher");
    let shown = output(Command::new(prefix.join("bin/mpicc")).arg("-show")).expect("a command");
    assert!(shown.contains(&format!("-L{}/lib", prefix.display())), "{shown}");
    let package = std::fs::read_to_string(prefix.join("lib/pkgconfig/mpi.pc")).expect("a file");
    assert!(!package.contains(&to.display().to_string()), "{package}");
    for name in ["share/doc/netmod-mpi/LICENSE-MIT", "share/doc/netmod-mpi/sbom.cdx.json"] {
        assert!(prefix.join(name).is_file(), "{name}");
    }
}

#[test]
fn a_debian_package_offers_alternatives() {
    let (place, asked) = Place::new("deb");
    let made = deb::make(&asked).expect("a package");
    let twice = std::fs::read(&made).expect("a package");
    assert_eq!(std::fs::read(deb::make(&asked).expect("a package")).expect("a package"), twice, "as before");
    let tree = place.0.join("tree");
    output(Command::new("dpkg-deb").arg("--raw-extract").arg(&made).arg(&tree)).expect("unpacked");
    let control = std::fs::read_to_string(tree.join("DEBIAN/control")).expect("a file");
    let begins = |start: &str| control.lines().any(|line| line.starts_with(start));
    assert!(begins("Package: netmod-mpi") && begins("Depends: libc6 (>= 2."), "{control}");
    let lib = format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    for name in ["libmpi.so.12", "libmpi_abi.so.1"] {
        let link = tree.join(&lib).join(name);
        assert!(link.is_symlink() && link.is_file(), "{name}");
    }
    let package =
        std::fs::read_to_string(tree.join(&lib).join("netmod-mpi/lib/pkgconfig/mpi.pc")).expect("a file");
    assert!(package.contains(&format!("prefix=/{lib}/netmod-mpi\n")), "{package}");
    for name in ["postinst", "prerm"] {
        let script = std::fs::read_to_string(tree.join("DEBIAN").join(name)).expect("a file");
        assert!(script.contains(&format!("prefix=/{lib}/netmod-mpi\n")), "{script}");
        let words = script.split('@').count();
        assert_eq!(words, 1, "{script}");
        output(Command::new("sh").arg("-n").arg(tree.join("DEBIAN").join(name))).expect("a sound script");
    }
}
