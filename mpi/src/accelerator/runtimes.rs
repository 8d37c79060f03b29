//! The runtime libraries that are known: CUDA's driver, HIP, Level Zero.
//!
//! Numbers and layouts are those of `cuda.h`, `hip_runtime_api.h` and `ze_api.h`.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_int, c_void};
use core::mem::transmute;
use core::ptr;

use dl::Shared;

use super::Accelerator;

/// A runtime: the beginning of its file's name, its name, and how it is opened.
type Known = (&'static str, &'static str, fn(Shared) -> Option<Box<dyn Accelerator>>);

const KNOWN: [Known; 3] = [
    ("libcuda.so", CUDA, |library| Some(Box::new(Cuda::new(library)?))),
    ("libamdhip64.so", HIP, |library| Some(Box::new(Hip::new(library)?))),
    ("libze_loader.so", ZE, |library| Some(Box::new(LevelZero::new(library)?))),
];

const CUDA: &str = "CUDA";
const HIP: &str = "HIP";
const ZE: &str = "Level Zero";

/// Returns the runtimes that the process has loaded, without those of these names.
pub(super) fn loaded(known: &[&str]) -> Vec<Box<dyn Accelerator>> {
    let files = dl::loaded();
    let missing = KNOWN.iter().filter(|(_, name, _)| !known.contains(name));
    let found = missing.filter_map(|(start, _, open)| {
        let file = files.iter().find(|file| dl::begins(file.path(), start))?;
        // It is loaded: this keeps it so.
        open(Shared::open(file.path()).ok()?)
    });
    found.collect()
}

/// `cuPointerGetAttribute(data, attribute, address)`: 0 if it knows the address.
type CuGetAttribute = unsafe extern "C" fn(*mut c_void, c_int, u64) -> c_int;

/// CUDA's driver.
#[derive(Debug)]
struct Cuda {
    attribute: CuGetAttribute,
}

impl Cuda {
    const MEMORY_TYPE: c_int = 2;
    const IS_MANAGED: c_int = 8;
    const DEVICE: u32 = 2;

    fn new(library: Shared) -> Option<Cuda> {
        let attribute = symbol(library, c"cuPointerGetAttribute")?;
        // SAFETY: the function has this type.
        Some(Cuda { attribute: unsafe { transmute::<*mut c_void, CuGetAttribute>(attribute) } })
    }

    fn get(&self, attribute: c_int, at: *const u8) -> Option<u32> {
        let mut value = 0u32;
        // SAFETY: both attributes are written as 32 bits; no address is accessed.
        let code = unsafe { (self.attribute)((&raw mut value).cast(), attribute, at.addr() as u64) };
        (code == 0).then_some(value)
    }
}

impl Accelerator for Cuda {
    fn name(&self) -> &'static str {
        CUDA
    }

    fn owns(&self, at: *const u8) -> bool {
        // Managed memory moves to who accesses it.
        self.get(Cuda::MEMORY_TYPE, at) == Some(Cuda::DEVICE) && self.get(Cuda::IS_MANAGED, at) != Some(1)
    }
}

/// `hipPointerAttribute_t`. The numbers of types differ between versions; the addresses do not.
#[repr(C)]
#[derive(Debug)]
struct HipAttributes {
    memory_type: c_int,
    device: c_int,
    on_device: *mut c_void,
    on_host: *mut c_void,
    is_managed: c_int,
    flags: u32,
    /// Room for what later versions add.
    room: [u64; 16],
}

/// `hipPointerGetAttributes(attributes, address)`: 0 if it knows the address.
type HipGetAttributes = unsafe extern "C" fn(*mut HipAttributes, *const c_void) -> c_int;

/// AMD's runtime.
#[derive(Debug)]
struct Hip {
    attributes: HipGetAttributes,
}

impl Hip {
    fn new(library: Shared) -> Option<Hip> {
        let attributes = symbol(library, c"hipPointerGetAttributes")?;
        // SAFETY: the function has this type.
        Some(Hip { attributes: unsafe { transmute::<*mut c_void, HipGetAttributes>(attributes) } })
    }
}

impl Accelerator for Hip {
    fn name(&self) -> &'static str {
        HIP
    }

    fn owns(&self, at: *const u8) -> bool {
        let (on_device, on_host) = (ptr::null_mut(), ptr::null_mut());
        let mut found = HipAttributes {
            memory_type: 0,
            device: 0,
            on_device,
            on_host,
            is_managed: 0,
            flags: 0,
            room: [0; 16],
        };
        // SAFETY: the attributes have room; no address is accessed.
        let code = unsafe { (self.attributes)(&raw mut found, at.cast()) };
        code == 0 && !found.on_device.is_null() && found.on_host.is_null() && found.is_managed == 0
    }
}

/// `ze_context_desc_t`.
#[repr(C)]
#[derive(Debug)]
struct ZeContext {
    kind: u32,
    next: *const c_void,
    flags: u32,
}

/// `ze_memory_allocation_properties_t`.
#[repr(C)]
#[derive(Debug)]
struct ZeProperties {
    kind: u32,
    next: *mut c_void,
    memory: u32,
    id: u64,
    page_size: u64,
}

type ZeHandle = *mut c_void;
type ZeInit = unsafe extern "C" fn(u32) -> c_int;
type ZeGetDrivers = unsafe extern "C" fn(*mut u32, *mut ZeHandle) -> c_int;
type ZeCreate = unsafe extern "C" fn(ZeHandle, *const ZeContext, *mut ZeHandle) -> c_int;
type ZeGetProperties =
    unsafe extern "C" fn(ZeHandle, *const c_void, *mut ZeProperties, *mut ZeHandle) -> c_int;

/// Intel's runtime, with a context of each driver: a driver knows the memory of all its contexts.
#[derive(Debug)]
struct LevelZero {
    contexts: Vec<ZeHandle>,
    properties: ZeGetProperties,
}

// SAFETY: "the application may call from simultaneous threads" holds for functions that take
// contexts and for this one (Level Zero Specification, Core Programming Guide, Multithreading).
unsafe impl Send for LevelZero {}

impl LevelZero {
    const CONTEXT: u32 = 0xd;
    const ALLOCATION: u32 = 0x17;
    const DEVICE: u32 = 2;
    /// Drivers that are asked.
    const DRIVERS: usize = 8;

    fn new(library: Shared) -> Option<LevelZero> {
        let init = symbol(library, c"zeInit")?;
        let drivers = symbol(library, c"zeDriverGet")?;
        let create = symbol(library, c"zeContextCreate")?;
        let properties = symbol(library, c"zeMemGetAllocProperties")?;
        // SAFETY: the functions have these types.
        let (init, drivers, create, properties) = unsafe {
            (
                transmute::<*mut c_void, ZeInit>(init),
                transmute::<*mut c_void, ZeGetDrivers>(drivers),
                transmute::<*mut c_void, ZeCreate>(create),
                transmute::<*mut c_void, ZeGetProperties>(properties),
            )
        };
        let (mut count, mut handles) = (LevelZero::DRIVERS as u32, [ptr::null_mut(); LevelZero::DRIVERS]);
        // SAFETY: the library may be initialised more than once; there is room for so many drivers.
        if unsafe { init(0) != 0 || drivers(&raw mut count, handles.as_mut_ptr()) != 0 } {
            return None;
        }
        let desc = ZeContext { kind: LevelZero::CONTEXT, next: ptr::null(), flags: 0 };
        let drivers = handles.into_iter().take(count as usize);
        let contexts = drivers.filter_map(|driver| {
            let mut context = ptr::null_mut();
            // SAFETY: the driver is the library's, and both structures live.
            (unsafe { create(driver, &raw const desc, &raw mut context) } == 0).then_some(context)
        });
        Some(LevelZero { contexts: contexts.collect(), properties })
    }
}

impl Accelerator for LevelZero {
    fn name(&self) -> &'static str {
        ZE
    }

    fn owns(&self, at: *const u8) -> bool {
        self.contexts.iter().any(|context| {
            let (kind, next) = (LevelZero::ALLOCATION, ptr::null_mut());
            let mut found = ZeProperties { kind, next, memory: 0, id: 0, page_size: 0 };
            // SAFETY: the context is the library's, the structure lives, no address is accessed,
            // and no device is asked for.
            let code = unsafe { (self.properties)(*context, at.cast(), &raw mut found, ptr::null_mut()) };
            code == 0 && found.memory == LevelZero::DEVICE
        })
    }
}

/// Returns a function of a library.
fn symbol(library: Shared, name: &CStr) -> Option<*mut c_void> {
    library.symbol(name, c"")
}
