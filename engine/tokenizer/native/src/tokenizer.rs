//! Encoding and decoding on a tokenizer of the daulet crate, with lengths instead of NUL-terminated
//! strings, since NUL is a character like any other in a prompt and in a vocabulary.

use crate::daulet::UnifiedTokenizer;
use crate::ffi::{guarded, slice, Bytes, Failure, Ids};
use serde_json::json;
use std::ffi::c_void;
use tokenizers::Tokenizer;

unsafe fn inner<'a>(t: *const c_void) -> Result<&'a Tokenizer, Failure> {
    match &*t.cast::<UnifiedTokenizer>() {
        UnifiedTokenizer::HuggingFace(t) => Ok(t),
        UnifiedTokenizer::Tiktoken(..) => Err(Failure("not a tokenizer.json".into())),
    }
}

/// Makes a tokenizer from the text of a tokenizer.json; null and `error` when it is not one. It is
/// freed by `tokenizers_free_tokenizer`. Truncation and padding of the file are switched off.
///
/// # Safety
/// `text` points to `len` bytes.
#[no_mangle]
pub unsafe extern "C" fn prefillonly_tokenizer_open(text: *const u8, len: usize, error: *mut Bytes) -> *mut c_void {
    let made = guarded(error, || {
        let mut t = Tokenizer::from_bytes(slice(text, len))?;
        t.with_truncation(None)?;
        t.with_padding(None);
        Ok(Box::new(UnifiedTokenizer::HuggingFace(t)))
    });
    made.map_or(std::ptr::null_mut(), |t| Box::into_raw(t).cast())
}

/// Encodes `text` into `out`; 0, or 1 and `error`.
///
/// # Safety
/// `t` is open; `text` points to `len` bytes of UTF-8.
#[no_mangle]
pub unsafe extern "C" fn prefillonly_tokenizer_encode(
    t: *const c_void, text: *const u8, len: usize, add_special: bool, out: *mut Ids, error: *mut Bytes,
) -> i32 {
    let ids = guarded(error, || {
        let text = String::from_utf8_lossy(slice(text, len));
        Ok(inner(t)?.encode_fast(text.as_ref(), add_special)?.get_ids().to_vec())
    });
    ids.map_or(1, |ids| {
        out.write(ids.into());
        0
    })
}

/// Decodes `ids` into `out`; 0, or 1 and `error`. Ids outside the vocabulary decode to nothing.
///
/// # Safety
/// `t` is open; `ids` points to `len` ids.
#[no_mangle]
pub unsafe extern "C" fn prefillonly_tokenizer_decode(
    t: *const c_void, ids: *const u32, len: usize, skip_special: bool, out: *mut Bytes, error: *mut Bytes,
) -> i32 {
    let text = guarded(error, || Ok(inner(t)?.decode(slice(ids, len), skip_special)?));
    text.map_or(1, |text| {
        out.write(text.into_bytes().into());
        0
    })
}

/// Writes the tokenizer's parts as JSON: normalizer, pre_tokenizer, decoder as in tokenizer.json,
/// added_tokens with their ids, and vocab, the text of every id (null where there is none).
///
/// # Safety
/// `t` is open.
#[no_mangle]
pub unsafe extern "C" fn prefillonly_tokenizer_describe(t: *const c_void, out: *mut Bytes, error: *mut Bytes) -> i32 {
    let text = guarded(error, || {
        let t = inner(t)?;
        let mut vocab: Vec<Option<String>> = Vec::new();
        for (token, id) in t.get_vocab(true) {
            let id = id as usize;
            if id >= vocab.len() {
                vocab.resize(id + 1, None);
            }
            vocab[id] = Some(token);
        }
        let added: Vec<_> = t.get_added_tokens_decoder().into_iter().map(|(id, a)| {
            json!({"id": id, "content": a.content, "special": a.special, "normalized": a.normalized,
                   "lstrip": a.lstrip, "rstrip": a.rstrip, "single_word": a.single_word})
        }).collect();
        Ok(serde_json::to_vec(&json!({
            "normalizer": t.get_normalizer(), "pre_tokenizer": t.get_pre_tokenizer(),
            "decoder": t.get_decoder(), "added_tokens": added, "vocab": vocab,
        }))?)
    });
    text.map_or(1, |text| {
        out.write(text.into());
        0
    })
}
