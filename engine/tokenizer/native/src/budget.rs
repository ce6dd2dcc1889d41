//! What one call may take: memory, processor time, and stack. The allocator of the library keeps the
//! account, since a template or a tokenizer.json can make any part of any crate allocate, recurse or
//! go on. An allocation beyond the account is refused, which unwinds to `within`.

use crate::ffi::{unpanicked, Failure};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicI32, AtomicIsize, Ordering};
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

/// Memory that many calls keep together, as those of one form do: what they hold, and how much it may be. All of them
/// together hold at most what `prefillonly_kept_limit` says.
pub struct Kept {
    held: AtomicIsize,
    most: isize,
}

static ALL_HELD: AtomicIsize = AtomicIsize::new(0);
static ALL_MOST: AtomicIsize = AtomicIsize::new(UNBOUNDED);

/// What is taken of a Kept at a time.
const GRANT: isize = 64 << 10;

impl Kept {
    pub fn new(most: usize) -> Self {
        Kept { held: AtomicIsize::new(0), most: most.min(UNBOUNDED as usize) as isize }
    }

    fn take(&self, n: isize) -> Result<(), Refusal> {
        if self.held.fetch_add(n, Ordering::Relaxed) + n > self.most {
            self.held.fetch_sub(n, Ordering::Relaxed);
            return Err(Refusal::Memory);
        }
        if ALL_HELD.fetch_add(n, Ordering::Relaxed) + n > ALL_MOST.load(Ordering::Relaxed) {
            self.give(n);
            return Err(Refusal::Full);
        }
        Ok(())
    }

    /// Gives `n` bytes back, which are freed outside of the calls.
    pub fn give(&self, n: isize) {
        self.held.fetch_sub(n, Ordering::Relaxed);
        ALL_HELD.fetch_sub(n, Ordering::Relaxed);
    }
}

/// Bounds what all forms hold together. Returns what they hold.
#[no_mangle]
pub extern "C" fn prefillonly_kept_limit(bytes: usize) -> usize {
    ALL_MOST.store(bytes.min(UNBOUNDED as usize) as isize, Ordering::Relaxed);
    prefillonly_kept()
}

/// What all forms hold.
#[no_mangle]
pub extern "C" fn prefillonly_kept() -> usize {
    ALL_HELD.load(Ordering::Relaxed).max(0) as usize
}

#[derive(Clone, Copy, PartialEq)]
enum Refusal {
    Memory,
    Full,
    Time,
    Depth,
    Cancelled,
}

/// The account of a thread. Without a budget it is so large that it is never overdrawn.
struct Account {
    open: Cell<bool>,
    left: Cell<isize>,
    net: Cell<isize>,                // allocated and not yet freed since `open`, whether bounded or not
    kept: Cell<*const Kept>,         // where `left` is taken from; null: it is all there from the beginning
    granted: Cell<isize>,            // taken from there
    spare: Cell<isize>,              // that may still be
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
        open: Cell::new(false), left: Cell::new(UNBOUNDED), net: Cell::new(0), kept: Cell::new(std::ptr::null()),
        granted: Cell::new(0), spare: Cell::new(0), ticks: Cell::new(i64::MAX), time: Cell::new(0),
        deadline: Cell::new(0), lowest: Cell::new(0), cancelled: Cell::new(std::ptr::null()), refusal: Cell::new(None),
    } };
}

impl Account {
    fn open(&self, b: &Budget, bounds: &Bounds, lowest: usize) {
        let bytes = b.bytes.min(UNBOUNDED as usize) as isize;
        self.left.set(if bounds.kept.is_null() { bytes } else { 0 });
        self.spare.set(bytes - self.left.get());
        self.net.set(0);
        self.granted.set(0);
        self.kept.set(bounds.kept);
        self.ticks.set(TICKS);
        self.time.set(u64::from(b.milliseconds) * 1_000_000);
        self.deadline.set(0);
        self.refusal.set(None);
        self.lowest.set(lowest);
        self.cancelled.set(bounds.cancelled);
        self.open.set(true);
    }

    /// Lifts all bounds.
    fn close(&self) {
        self.open.set(false);
        self.ticks.set(i64::MAX);
        self.left.set(UNBOUNDED);
    }

    /// What is allocated and not freed since `open`. Of a Kept the rest goes back.
    fn settle(&self) -> isize {
        let (kept, net) = (self.kept.replace(std::ptr::null()), self.net.get());
        if !kept.is_null() {
            unsafe { (*kept).give(self.granted.get() - net) };
        }
        net
    }

    /// Takes what is missing from the Kept.
    #[cold]
    fn draw(&self) -> Result<(), Refusal> {
        let kept = self.kept.get();
        let more = GRANT.max(-self.left.get());
        if kept.is_null() || more > self.spare.get() {
            return Err(Refusal::Memory);
        }
        unsafe { (*kept).take(more)? };
        self.left.set(self.left.get() + more);
        self.spare.set(self.spare.get() - more);
        self.granted.set(self.granted.get() + more);
        Ok(())
    }

    /// Takes `size` bytes, or says no.
    #[inline]
    fn charge(&self, size: usize) -> bool {
        self.left.set(self.left.get() - size as isize);
        self.net.set(self.net.get() + size as isize);
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
        self.net.set(self.net.get() - size as isize);
    }

    #[inline]
    fn overdrawn(&self) -> Option<Refusal> {
        let here = 0u8;
        if self.left.get() < 0 {
            if let Err(refusal) = self.draw() {
                return Some(refusal);
            }
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

/// What bounds a call beside its Budget: `*cancelled` ends it when it is not 0, and what it keeps is of `kept`. Both may be
/// null.
#[derive(Clone, Copy)]
pub struct Bounds {
    pub cancelled: *const AtomicI32,
    pub kept: *const Kept,
}

/// No more bounds.
pub const FREE: Bounds = Bounds { cancelled: std::ptr::null(), kept: std::ptr::null() };

unsafe impl Send for Bounds {} // both outlive the call
unsafe impl Sync for Bounds {}

/// Runs `f` on this thread within `b` and `bounds`.
pub fn within<T>(b: &Budget, bounds: Bounds, f: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    account(b, &bounds, 0, f).map(|(value, _)| value)
}

/// Frees `value`, which calls have kept.
pub fn release<T>(value: T, kept: &Kept) {
    ACCOUNT.with(|a| a.net.set(0));
    drop(value);
    kept.give(-ACCOUNT.with(|a| a.net.get()));
}

/// Runs `f` within `b`: first within a little of it, which mostly is enough, and is sure to fit this stack;
/// else `apart`. Returns what `apart` does.
pub fn deep<T: Send>(b: &Budget, f: impl Fn() -> Result<T, Failure> + Sync) -> Result<(T, usize), Failure> {
    let here = Budget { bytes: b.bytes.min(HERE), ..*b };
    let top = 0u8;
    let done = account(&here, &FREE, &top as *const u8 as usize - HERE_STACK_THAT_ALLOCATES, &f);
    match ACCOUNT.with(|a| a.refusal.get()) {
        Some(Refusal::Memory | Refusal::Depth) => apart(b, FREE, &f),
        _ => done,
    }
}

/// Runs `f` within `b` on a thread with a stack of its own. Returns also the bytes that `f` allocated
/// and did not free, its result among them.
pub fn apart<T: Send>(b: &Budget, bounds: Bounds, f: impl FnOnce() -> Result<T, Failure> + Send) -> Result<(T, usize), Failure> {
    std::thread::scope(|scope| {
        let run = || {
            let bounds = bounds;
            let top = 0u8;
            account(b, &bounds, &top as *const u8 as usize - STACK_THAT_ALLOCATES, f)
        };
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, run)
            .map_err(|e| Failure(format!("cannot start a thread with a stack of {} MiB: {e}", STACK >> 20)))?;
        thread.join().unwrap_or_else(|_| Err(Failure("panic".into())))
    })
}

/// A library that catches panics itself may make another error of a refusal; the refusal is what is told.
fn account<T>(
    b: &Budget, bounds: &Bounds, lowest: usize, f: impl FnOnce() -> Result<T, Failure>,
) -> Result<(T, usize), Failure> {
    HOOKS.call_once(set_hooks);
    ACCOUNT.with(|a| a.open(b, bounds, lowest));
    let done = unpanicked(f, |payload| payload.downcast_ref::<Refusal>().map(|r| explain(*r, b)));
    ACCOUNT.with(Account::close);
    match done {
        Ok(value) => Ok((value, ACCOUNT.with(Account::settle).max(0) as usize)),
        Err(failure) => {
            let text = failure.0.clone();
            drop(failure);
            let (net, refusal) = ACCOUNT.with(|a| (a.net.get(), a.refusal.get()));
            ACCOUNT.with(|a| a.net.set(net - text.capacity() as isize)); // it is not kept
            ACCOUNT.with(Account::settle);
            Err(Failure(refusal.map_or(text, |r| explain(r, b))))
        }
    }
}

static HOOKS: Once = Once::new();

/// A panic becomes an error, which says all that it would print; its text may quote a prompt.
fn set_hooks() {
    std::alloc::set_alloc_error_hook(refused);
    std::panic::set_hook(Box::new(|_| {}));
}

fn explain(r: Refusal, b: &Budget) -> String {
    match r {
        Refusal::Full => "the memory of all forms is used up".into(), // prefillonly_full
        Refusal::Memory => format!("it takes more than {} MiB of memory", b.bytes.div_ceil(1 << 20)),
        Refusal::Time => format!("it takes more than {} s", f64::from(b.milliseconds) / 1000.0),
        Refusal::Depth => "it is nested too deep".into(),
        Refusal::Cancelled => "cancelled".into(),
    }
}
