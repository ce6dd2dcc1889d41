//! Tokenizers and chat templates as one static library with a C interface; `prefillonly_native.h`
//! is its header. One library, since two of Rust's would define the same symbols twice.

// The source of github.com/daulet/tokenizers, copied from the Go module by tools/native.sh.
#[allow(warnings)]
mod daulet;
mod ffi;
mod json;
mod template;
mod tokenizer;

pub use daulet::*;
pub use template::*;
pub use tokenizer::*;
