//! Tests with libraries that every system has, and with one that does not exist.

use super::{OpenError, Shared, begins, loaded, loads};
use std::path::Path;

#[test]
fn what_is_not_there_is_named() {
    let error = Shared::open(Path::new("/nonexistent/lib.so.1")).expect_err("it is not there");
    assert!(matches!(&error, OpenError::Loader(why) if why.contains("/nonexistent/lib.so.1")), "{error}");
    let error = Shared::open(Path::new("a\0b")).expect_err("that is no path");
    assert_eq!(error, OpenError::ZeroByte);
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn symbols_are_found_by_version_and_without() {
    let library = Shared::open(Path::new("libc.so.6")).expect("the C library");
    let plain = library.symbol(c"memcpy", c"").expect("memcpy");
    assert_eq!(library.symbol(c"memcpy", c"NO_SUCH_VERSION"), Some(plain));
    assert_eq!(library.versioned(c"memcpy", c"NO_SUCH_VERSION"), None);
    assert_eq!(library.versioned(c"memcpy", c""), None);
    if cfg!(target_arch = "x86_64") {
        // The C library has two versions of this symbol; the unversioned look-up gives the newer
        // one.
        assert_eq!(library.symbol(c"memcpy", c"GLIBC_2.14"), Some(plain));
        assert!(library.symbol(c"memcpy", c"GLIBC_2.2.5").is_some_and(|old| old != plain));
    }
    assert_eq!(library.symbol(c"no_such_function", c"GLIBC_2.14"), None);
}

#[cfg(target_os = "linux")]
#[test]
fn files_of_the_process_are_known() {
    let before = loads();
    assert!(before > 0);
    let here = files_of_the_process_are_known as fn() as usize;
    let files = loaded();
    let program = files.iter().find(|file| file.has(here)).expect("this program");
    assert!(program.path().as_os_str().is_empty());
    let library = files.iter().find(|file| begins(file.path(), "libc.so")).expect("the C library");
    assert!(!library.has(here) && library.has(libc::getpid as *const () as usize));
    assert_eq!(Shared::open(library.path()).map(|_| loads()), Ok(before), "it was loaded already");
}
