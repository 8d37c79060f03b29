//! Integers with a meaning of their own. Their values are those of the MPICH ABI.

/// Source of a receive that takes messages of every rank.
pub const ANY_SOURCE: i32 = -2;
/// Tag of a receive that takes messages with every tag.
pub const ANY_TAG: i32 = -1;
/// Rank of nobody: messages to and from it are empty and done at once.
pub const PROC_NULL: i32 = -1;
/// Root of a collective on an intercommunicator, at the root itself.
pub const ROOT: i32 = -3;
/// Value of what has none: a rank outside of a group, the color of who joins no communicator.
pub const UNDEFINED: i32 = -32766;
/// Greatest tag (the attribute `MPI_TAG_UB`).
pub const TAG_UB: i32 = i32::MAX;

/// The two handles are equal (`MPI_Comm_compare`).
pub const IDENT: i32 = 0;
/// The same processes in the same order.
pub const CONGRUENT: i32 = 1;
/// The same processes in another order.
pub const SIMILAR: i32 = 2;
/// Different processes.
pub const UNEQUAL: i32 = 3;

/// Only one thread exists.
pub const THREAD_SINGLE: i32 = 0;
/// Only the thread that called init calls MPI.
pub const THREAD_FUNNELED: i32 = 1;
/// One thread at a time calls MPI.
pub const THREAD_SERIALIZED: i32 = 2;
/// All threads call MPI at once.
pub const THREAD_MULTIPLE: i32 = 3;

/// Split of a communicator by shared memory (`MPI_Comm_split_type`).
pub const COMM_TYPE_SHARED: i32 = 1;
/// Split by a kind of hardware that the info names.
pub const COMM_TYPE_HW_GUIDED: i32 = 2;
/// Split by the next lower kind of hardware.
pub const COMM_TYPE_HW_UNGUIDED: i32 = 3;
/// Split by a kind of hardware resource that the info names.
pub const COMM_TYPE_RESOURCE_GUIDED: i32 = 4;
/// `MPIX_COMM_TYPE_NEIGHBORHOOD`, of MPICH: a network's neighbours, of which nothing is known.
pub const COMM_TYPE_NEIGHBORHOOD: i32 = 5;

/// Topology of a communicator with a graph.
pub const GRAPH: i32 = 1;
/// Topology of a Cartesian communicator.
pub const CART: i32 = 2;
/// Topology of a communicator with a distributed graph.
pub const DIST_GRAPH: i32 = 3;

/// Address of a buffer for buffered sends whose memory the library provides
/// (`MPI_BUFFER_AUTOMATIC`).
pub const BUFFER_AUTOMATIC: usize = usize::MAX - 1;
/// Bytes that a buffered send needs beside its data (`MPI_BSEND_OVERHEAD`).
pub const BSEND_OVERHEAD: i64 = 96;
/// Longest name of an object in bytes, with the terminating zero in C.
pub const MAX_OBJECT_NAME: usize = 128;
/// Bytes of the name of a port, with its end (`MPI_MAX_PORT_NAME`).
pub const MAX_PORT_NAME: usize = 256;
/// Longest key of an info in bytes.
pub const MAX_INFO_KEY: usize = 255;
/// Longest value of an info in bytes.
pub const MAX_INFO_VAL: usize = 1024;
/// Longest text of an error in bytes, with the terminating zero in C.
pub const MAX_ERROR_STRING: usize = 512;
/// Greatest error code of this library; codes and classes of users are greater.
pub const LASTCODE: i32 = 0x3fff_ffff;

/// Access mode of a file: it is created if it does not exist.
pub const MODE_CREATE: i32 = 1;
/// Access mode: only reads.
pub const MODE_RDONLY: i32 = 2;
/// Access mode: only writes.
pub const MODE_WRONLY: i32 = 4;
/// Access mode: reads and writes.
pub const MODE_RDWR: i32 = 8;
/// Access mode: the file is deleted when it is closed.
pub const MODE_DELETE_ON_CLOSE: i32 = 16;
/// Access mode: the file is opened nowhere else at the same time.
pub const MODE_UNIQUE_OPEN: i32 = 32;
/// Access mode: the file must not exist before.
pub const MODE_EXCL: i32 = 64;
/// Access mode: file pointers begin at the end.
pub const MODE_APPEND: i32 = 128;
/// Access mode: the file is accessed in order, by the shared pointer alone.
pub const MODE_SEQUENTIAL: i32 = 256;
/// Place of a seek: from the beginning of the view.
pub const SEEK_SET: i32 = 600;
/// Place of a seek: from the pointer.
pub const SEEK_CUR: i32 = 602;
/// Place of a seek: from the end of the file.
pub const SEEK_END: i32 = 604;
/// Displacement of a view of a sequential file: where its shared pointer is.
pub const DISPLACEMENT_CURRENT: i64 = -54_278_278;
/// Longest name of a data representation in bytes, with the terminating zero in C.
pub const MAX_DATAREP_STRING: usize = 128;

/// Type of a lock of a window: nobody else has it.
pub const LOCK_EXCLUSIVE: i32 = 234;
/// Type of a lock of a window: others may have it, too.
pub const LOCK_SHARED: i32 = 235;
/// Assertion: the calls at the other side need not be waited for.
pub const MODE_NOCHECK: i32 = 1024;
/// Assertion: no process has stored to its memory since the last synchronization.
pub const MODE_NOSTORE: i32 = 2048;
/// Assertion: nobody puts or accumulates to this memory until the next synchronization.
pub const MODE_NOPUT: i32 = 4096;
/// Assertion of a fence: it ends no accesses.
pub const MODE_NOPRECEDE: i32 = 8192;
/// Assertion of a fence: it begins no accesses.
pub const MODE_NOSUCCEED: i32 = 16384;
