//! How values cross the C interface: buffers with lengths, and no panic across the border.

use std::any::Any;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Bytes owned by the caller, who gives them back to `prefillonly_bytes_free`.
#[repr(C)]
pub struct Bytes {
    data: *mut u8,
    len: usize,
}

/// Token ids owned by the caller, who gives them back to `prefillonly_ids_free`.
#[repr(C)]
pub struct Ids {
    data: *mut u32,
    len: usize,
}

impl From<Vec<u8>> for Bytes {
    fn from(v: Vec<u8>) -> Self {
        let len = v.len();
        Bytes { data: Box::into_raw(v.into_boxed_slice()).cast(), len }
    }
}

impl From<Vec<u32>> for Ids {
    fn from(v: Vec<u32>) -> Self {
        let len = v.len();
        Ids { data: Box::into_raw(v.into_boxed_slice()).cast(), len }
    }
}

/// The error of a call; Rust's own errors turn into it by their text.
pub struct Failure(pub String);

impl<E: ToString> From<E> for Failure {
    fn from(e: E) -> Self {
        Failure(e.to_string())
    }
}

/// Runs `f` and turns a panic into an error. `known` says what a payload means that is not a panic's text.
pub fn unpanicked<T>(
    f: impl FnOnce() -> Result<T, Failure>, known: impl FnOnce(&dyn Any) -> Option<String>,
) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|payload| {
        let text = match (payload.downcast_ref::<String>(), payload.downcast_ref::<&str>()) {
            (Some(s), _) => format!("panic: {s}"),
            (_, Some(s)) => format!("panic: {s}"),
            _ => known(&*payload).unwrap_or_else(|| "panic".into()),
        };
        Err(Failure(text))
    })
}

/// Hands the value out, or writes the failure to `error`.
///
/// # Safety
/// `error` points to a `Bytes` that may be overwritten.
pub unsafe fn answer<T>(error: *mut Bytes, result: Result<T, Failure>) -> Option<T> {
    result.map_err(|Failure(text)| error.write(text.into_bytes().into())).ok()
}

/// The slice of `len` elements at `data`, which may be null when `len` is 0.
///
/// # Safety
/// `data` points to `len` elements that outlive the slice.
pub unsafe fn slice<'a, T>(data: *const T, len: usize) -> &'a [T] {
    if len == 0 {
        return &[];
    }
    std::slice::from_raw_parts(data, len)
}

/// # Safety
/// `b` came from this library and is not used again.
#[no_mangle]
pub unsafe extern "C" fn prefillonly_bytes_free(b: Bytes) {
    drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(b.data, b.len)));
}

/// # Safety
/// `b` came from this library and is not used again.
#[no_mangle]
pub unsafe extern "C" fn prefillonly_ids_free(b: Ids) {
    drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(b.data, b.len)));
}
