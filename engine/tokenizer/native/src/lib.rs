//! Tokenizers, chat templates and grammars as one static library with a C interface; `prefillonly_native.h`
//! is its header. One library, since two of Rust's would define the same symbols twice.

#![feature(alloc_error_hook)] // see budget.rs; tools/build/native.sh permits it to this crate

// The source of github.com/daulet/tokenizers, copied from the Go module by tools/build/native.sh.
#[allow(warnings)]
mod daulet;
mod budget;
mod ffi;
mod grammar;
mod json;
mod template;
mod tokenizer;

pub use daulet::*;
pub use grammar::*;
pub use template::*;
pub use tokenizer::*;
