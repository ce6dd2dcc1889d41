//! What one call may take: memory, processor time, and stack. The allocator of the library keeps the
//! account, since a template or a tokenizer.json can make any part of any crate allocate, recurse or
//! go on. An allocation beyond the account is refused, which unwinds to `within`.

use crate::ffi::{unpanicked, Failure};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::Once;

/// The bounds of one call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Budget {
    bytes: usize,      // allocated and not yet freed
    milliseconds: u32, // of this thread's processor time
}

/// Allocations between two looks at the clock; one of many pages counts as several.
const TICKS: i64 = 256;

/// What `deep` tries first, on the stack it is called on, which has 2 MiB or more.
const HERE: usize = 384 << 10;
const HERE_STACK_THAT_ALLOCATES: usize = 256 << 10;

/// The stack of a call that runs `apart`. Nothing allocates beyond the first part of it. The rest is
/// for the recursion that does not, and which the size of a value or a source bounds: to free a value
/// of lists in lists, and to compile a long expression.
const STACK: usize = 256 << 20;
const STACK_THAT_ALLOCATES: usize = 16 << 20;

#[derive(Clone, Copy, PartialEq)]
enum Refusal {
    Memory,
    Time,
    Depth,
    Cancelled,
}

/// The account of a thread. Without a budget it is so large that it is never overdrawn.
struct Account {
    open: Cell<bool>,
    left: Cell<isize>,
    ticks: Cell<i64>,
    time: Cell<u64>,                 // nanoseconds of processor time from the first look at the clock
    deadline: Cell<u64>,             // of the thread's processor time; 0 before that look
    lowest: Cell<usize>,             // address on the stack; 0: no bound
    cancelled: Cell<*const AtomicI32>,
    refusal: Cell<Option<Refusal>>,
}

const UNBOUNDED: isize = isize::MAX / 2;

thread_local! {
    static ACCOUNT: Account = const { Account {
        open: Cell::new(false), left: Cell::new(UNBOUNDED), ticks: Cell::new(i64::MAX), time: Cell::new(0),
        deadline: Cell::new(0), lowest: Cell::new(0), cancelled: Cell::new(std::ptr::null()), refusal: Cell::new(None),
    } };
}

impl Account {
    fn open(&self, b: &Budget, lowest: usize, cancelled: *const AtomicI32) {
        self.left.set(b.bytes.min(UNBOUNDED as usize) as isize);
        self.ticks.set(TICKS);
        self.time.set(u64::from(b.milliseconds) * 1_000_000);
        self.deadline.set(0);
        self.refusal.set(None);
        self.lowest.set(lowest);
        self.cancelled.set(cancelled);
        self.open.set(true);
    }

    /// Lifts all bounds. Returns what was left of the memory.
    fn close(&self) -> isize {
        self.open.set(false);
        self.ticks.set(i64::MAX);
        self.left.replace(UNBOUNDED)
    }

    /// Takes `size` bytes, or says no.
    #[inline]
    fn charge(&self, size: usize) -> bool {
        self.left.set(self.left.get() - size as isize);
        if !self.open.get() {
            return true;
        }
        self.ticks.set(self.ticks.get() - 1 - (size >> 12) as i64);
        match self.overdrawn() {
            None => true,
            Some(refusal) => {
                self.refusal.set(Some(refusal));
                self.refund(size);
                false
            }
        }
    }

    #[inline]
    fn refund(&self, size: usize) {
        self.left.set(self.left.get() + size as isize);
    }

    #[inline]
    fn overdrawn(&self) -> Option<Refusal> {
        let here = 0u8;
        if self.left.get() < 0 {
            return Some(Refusal::Memory);
        }
        if (&here as *const u8 as usize) < self.lowest.get() {
            return Some(Refusal::Depth);
        }
        if self.ticks.get() >= 0 {
            return None;
        }
        self.ticks.set(TICKS);
        let now = processor_time();
        match self.deadline.get() {
            0 => self.deadline.set(now + self.time.get()),
            deadline if now > deadline => return Some(Refusal::Time),
            _ => {}
        }
        let cancelled = self.cancelled.get();
        (!cancelled.is_null() && unsafe { (*cancelled).load(Ordering::Relaxed) } != 0).then_some(Refusal::Cancelled)
    }
}

/// The allocator of the library: the system's, with an account.
struct Metered;

#[global_allocator]
static ALLOCATOR: Metered = Metered;

unsafe impl GlobalAlloc for Metered {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        metered(layout.size(), || System.alloc(layout))
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        metered(layout.size(), || System.alloc_zeroed(layout))
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        System.dealloc(p, layout);
        ACCOUNT.with(|a| a.refund(layout.size()));
    }

    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let moved = metered(size, || System.realloc(p, layout, size));
        if !moved.is_null() {
            ACCOUNT.with(|a| a.refund(layout.size()));
        }
        moved
    }
}

#[inline]
fn metered(size: usize, allocate: impl FnOnce() -> *mut u8) -> *mut u8 {
    ACCOUNT.with(|a| {
        if !a.charge(size) {
            return std::ptr::null_mut();
        }
        let p = allocate();
        if p.is_null() {
            a.refusal.set(Some(Refusal::Memory));
            a.refund(size);
        }
        p
    })
}

/// Unwinds from a refused allocation to `within`. Without a budget it returns, and the process aborts.
fn refused(_: Layout) {
    let refusal = ACCOUNT.with(|a| {
        let open = a.open.get();
        a.close(); // to unwind may take memory
        open.then(|| a.refusal.get()).flatten()
    });
    if let Some(refusal) = refusal {
        resume_unwind(Box::new(refusal));
    }
}

fn processor_time() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Runs `f` on this thread within `b`, and until `*cancelled` is not 0 (it may be null).
pub fn within<T>(b: &Budget, cancelled: *const AtomicI32, f: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    account(b, 0, cancelled, f).map(|(value, _)| value)
}

/// Runs `f` within `b`: first within a little of it, which mostly is enough, and is sure to fit this stack;
/// else `apart`. Returns what `apart` does.
pub fn deep<T: Send>(b: &Budget, f: impl Fn() -> Result<T, Failure> + Sync) -> Result<(T, usize), Failure> {
    let here = Budget { bytes: b.bytes.min(HERE), ..*b };
    let top = 0u8;
    let done = account(&here, &top as *const u8 as usize - HERE_STACK_THAT_ALLOCATES, std::ptr::null(), &f);
    match ACCOUNT.with(|a| a.refusal.get()) {
        Some(Refusal::Memory | Refusal::Depth) => apart(b, &f),
        _ => done,
    }
}

/// Runs `f` within `b` on a thread with a stack of its own. Returns also the bytes that `f` allocated
/// and did not free, its result among them.
pub fn apart<T: Send>(b: &Budget, f: impl FnOnce() -> Result<T, Failure> + Send) -> Result<(T, usize), Failure> {
    std::thread::scope(|scope| {
        let run = || {
            let top = 0u8;
            account(b, &top as *const u8 as usize - STACK_THAT_ALLOCATES, std::ptr::null(), f)
        };
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, run)
            .map_err(|e| Failure(format!("cannot start a thread with a stack of {} MiB: {e}", STACK >> 20)))?;
        thread.join().unwrap_or_else(|_| Err(Failure("panic".into())))
    })
}

fn account<T>(
    b: &Budget, lowest: usize, cancelled: *const AtomicI32, f: impl FnOnce() -> Result<T, Failure>,
) -> Result<(T, usize), Failure> {
    HOOKS.call_once(set_hooks);
    ACCOUNT.with(|a| a.open(b, lowest, cancelled));
    let done = unpanicked(f, |payload| payload.downcast_ref::<Refusal>().map(|r| explain(*r, b)));
    let left = ACCOUNT.with(Account::close);
    done.map(|value| (value, (b.bytes as isize - left).max(0) as usize))
}

static HOOKS: Once = Once::new();

/// A panic becomes an error, which says all that it would print; its text may quote a prompt.
fn set_hooks() {
    std::alloc::set_alloc_error_hook(refused);
    std::panic::set_hook(Box::new(|_| {}));
}

fn explain(r: Refusal, b: &Budget) -> String {
    match r {
        Refusal::Memory => format!("it takes more than {} MiB of memory", b.bytes.div_ceil(1 << 20)),
        Refusal::Time => format!("it takes more than {} s", f64::from(b.milliseconds) / 1000.0),
        Refusal::Depth => "it is nested too deep".into(),
        Refusal::Cancelled => "cancelled".into(),
    }
}
