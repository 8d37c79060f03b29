//! Measures the memory that providers keep for closed endpoints, using libfabric's calls alone.

#![allow(unsafe_code)]

mod common;

use std::ffi::{CString, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::{null, null_mut};

use netmod_libfabric_sys::attr::{fi_av_attr, fi_cq_attr, fi_info};
use netmod_libfabric_sys::call::*;
use netmod_libfabric_sys::consts::*;
use netmod_libfabric_sys::fid::{fid, fid_av, fid_cq, fid_domain, fid_ep, fid_fabric};
use netmod_libfabric_sys::{Library, version};

/// Environment variable that makes this program a child process for the named provider.
const ALONE: &str = "NETMOD_TEST_ALONE";
/// Number of endpoints opened and closed before counting, and again while counting.
const FEW: usize = 20;
const MANY: usize = 200;
/// Prefix of the child's result line, before the number of bytes kept per endpoint.
const SAYS: &str = "bytes kept: ";

/// Returns the number of bytes allocated by `malloc` and not freed.
fn allocated() -> usize {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: the call only counts.
        let info = unsafe { libc::mallinfo2() };
        info.uordblks + info.hblkhd
    }
    #[cfg(not(target_env = "gnu"))]
    0
}

fn library() -> Option<Library> {
    let path = std::env::var_os(Library::VARIABLE);
    let found = Library::load(path.as_deref().map(Path::new));
    if let Err(e) = &found {
        common::skip(&e.to_string());
    }
    found.ok()
}

/// Returns the first record of a provider with reliable datagrams and transfers; null if there is
/// none. The caller frees it.
fn info(lib: &Library, provider: &str) -> *mut fi_info {
    let name = CString::new(provider).expect("a name");
    let mut found = null_mut();
    // SAFETY: the library has made the hints with all parts, and they are freed with it. The name
    // is taken out before, since it is not the library's.
    unsafe {
        let hints = (lib.fi_dupinfo)(null());
        assert!(!hints.is_null(), "fi_dupinfo");
        (*hints).caps = FI_MSG | FI_RMA;
        (*(*hints).ep_attr).type_ = FI_EP_RDM;
        (*(*hints).domain_attr).mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
        (*(*hints).fabric_attr).prov_name = name.as_ptr().cast_mut();
        let rc = (lib.fi_getinfo)(lib.api(), null(), null(), 0, hints, &raw mut found);
        (*(*hints).fabric_attr).prov_name = null_mut();
        (lib.fi_freeinfo)(hints);
        if rc != 0 { null_mut() } else { found }
    }
}

fn done(lib: &Library, call: &str, rc: c_int) {
    assert_eq!(rc, 0, "{call}: {}", lib.error(rc.into()));
}

/// Opens an endpoint with all that it needs, and closes everything again.
fn open_and_close(lib: &Library, info: *mut fi_info) {
    let (mut fabric, mut domain): (*mut fid_fabric, *mut fid_domain) = (null_mut(), null_mut());
    let (mut av, mut cq, mut ep): (*mut fid_av, *mut fid_cq, *mut fid_ep) =
        (null_mut(), null_mut(), null_mut());
    let none: *mut c_void = null_mut();
    // SAFETY: the record is live; each object is used while it is live, and closed after those that
    // need it.
    unsafe {
        done(lib, "fi_fabric", (lib.fi_fabric)((*info).fabric_attr, &raw mut fabric, none));
        done(lib, "fi_domain", fi_domain(fabric, info, &raw mut domain, none));
        let mut attr = fi_av_attr {
            type_: (*(*info).domain_attr).av_type,
            rx_ctx_bits: 0,
            count: 0,
            ep_per_node: 0,
            name: null(),
            map_addr: null_mut(),
            flags: 0,
        };
        done(lib, "fi_av_open", fi_av_open(domain, &raw mut attr, &raw mut av, none));
        let mut attr = fi_cq_attr {
            size: 64,
            flags: 0,
            format: FI_CQ_FORMAT_DATA,
            wait_obj: FI_WAIT_NONE,
            signaling_vector: 0,
            wait_cond: 0,
            wait_set: null_mut(),
        };
        done(lib, "fi_cq_open", fi_cq_open(domain, &raw mut attr, &raw mut cq, none));
        done(lib, "fi_endpoint", fi_endpoint(domain, info, &raw mut ep, none));
        done(lib, "fi_ep_bind", fi_bind(ep.cast(), av.cast(), 0));
        done(lib, "fi_ep_bind", fi_bind(ep.cast(), cq.cast(), FI_TRANSMIT | FI_RECV));
        done(lib, "fi_enable", fi_enable(ep.cast()));
        let all: [*mut fid; 5] = [ep.cast(), av.cast(), cq.cast(), domain.cast(), fabric.cast()];
        for object in all {
            done(lib, "fi_close", fi_close(object));
        }
    }
}

/// Returns the number of bytes kept per endpoint; `None` if there is no such provider.
fn kept(lib: &Library, provider: &str) -> Option<usize> {
    let info = info(lib, provider);
    if info.is_null() {
        return None;
    }
    for _ in 0..FEW {
        open_and_close(lib, info);
    }
    let before = allocated();
    for _ in 0..MANY {
        open_and_close(lib, info);
    }
    let kept = allocated().saturating_sub(before) / MANY;
    // SAFETY: the record came from `info`, and nobody uses it any more.
    unsafe { (lib.fi_freeinfo)(info) };
    Some(kept)
}

/// Providers that keep memory: name, first version, and least and most bytes kept per endpoint. The
/// net provider of 1.17 loses records of its own. The shm provider keeps the name of each endpoint
/// until the process ends, still in 2.4.
const KEPT: [(&str, u32, usize, usize); 5] = [
    ("net", version(1, 17), 500, 1000),
    ("shm", version(1, 17), 200, 400),
    ("sockets", version(1, 17), 0, 64),
    ("udp;ofi_rxd", version(1, 17), 0, 64),
    ("tcp", version(2, 0), 0, 64),
];

#[test]
fn memory_kept_per_closed_endpoint() {
    let Some(lib) = library() else { return };
    if let Ok(provider) = std::env::var(ALONE) {
        return match kept(&lib, &provider) {
            Some(bytes) => println!("{SAYS}{bytes}"),
            None => println!("{provider} is not there"),
        };
    }
    if allocated() == 0 {
        return common::skip("what stays of an endpoint: the C library does not say what is allocated");
    }
    let mut seen = 0;
    for (provider, since, least, most) in KEPT {
        if lib.version() < since {
            continue;
        }
        let this = std::env::current_exe().expect("the path of this program");
        let mut command = Command::new(this);
        command.args(["--exact", "memory_kept_per_closed_endpoint", "--nocapture"]);
        // One heap for all threads.
        let out = command.env(ALONE, provider).env("MALLOC_ARENA_MAX", "1").output();
        let out = out.expect("this program starts");
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success(), "{provider}: {text}{}", String::from_utf8_lossy(&out.stderr));
        let said = text.lines().find_map(|line| Some(line.split_once(SAYS)?.1));
        let Some(bytes) = said.map(|n| n.parse::<usize>().expect("a number of bytes")) else {
            assert!(text.contains(&format!("{provider} is not there")), "{text}");
            continue;
        };
        println!("{provider} keeps {bytes} bytes of each endpoint");
        assert!((least..=most).contains(&bytes), "{provider}: {bytes} bytes, and not {least} to {most}");
        seen += 1;
    }
    assert!(seen > 0, "none of these providers is there");
}

/// Repeats the test with a second libfabric.
#[test]
fn memory_kept_with_a_second_library() {
    let Some(path) = std::env::var_os("NETMOD_TEST_OFI_LIBRARY").map(PathBuf::from) else {
        return common::skip(
            "libfabric 2 (`cargo xtask test` fetches one, and names it in NETMOD_TEST_OFI_LIBRARY)",
        );
    };
    let this = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(this);
    command.args(["--exact", "memory_kept_per_closed_endpoint", "--nocapture"]).env(Library::VARIABLE, &path);
    if let Some(folder) = path.parent() {
        command.env("FI_PROVIDER_PATH", folder);
    }
    let out = command.output().expect("this program starts");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{}:\n{text}{}", path.display(), String::from_utf8_lossy(&out.stderr));
    assert!(text.contains("shm keeps "), "{text}");
}
