//! Gives the shared library its own name, and keeps it loaded.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The loader finds it by this name for every program of the ABI.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmpi_abi.so.1");
    // Threads of the library and handlers at exit outlast a dlclose.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
