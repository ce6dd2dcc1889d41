//! Encoding and decoding on a tokenizer of the daulet crate, with lengths instead of NUL-terminated
//! strings, since NUL is a character like any other in a prompt and in a vocabulary.

use crate::budget::{within, Bounds, Budget, FREE};
use crate::daulet::UnifiedTokenizer;
use crate::ffi::{answer, slice, Bytes, Failure, Ids};
use serde_json::json;
use std::ffi::c_void;
use std::sync::atomic::AtomicI32;
use tokenizers::{ModelWrapper, Tokenizer};

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
pub unsafe extern "C" fn prefillonly_tokenizer_open(
    text: *const u8, len: usize, budget: Budget, error: *mut Bytes,
) -> *mut c_void {
    let text = slice(text, len);
    let made = within(&budget, FREE, || {
        count_added(text)?;
        let mut t = Tokenizer::from_bytes(text)?;
        t.with_truncation(None)?;
        t.with_padding(None);
        Ok(Box::new(UnifiedTokenizer::HuggingFace(t)))
    });
    answer(error, made).map_or(std::ptr::null_mut(), |t| Box::into_raw(t).cast())
}

/// The most added tokens: each is compared with all before it. Known tokenizers have up to 6,500.
const MAX_ADDED: usize = 16384;

fn count_added(text: &[u8]) -> Result<(), Failure> {
    #[derive(serde::Deserialize)]
    struct Counted {
        #[serde(default)]
        added_tokens: Vec<serde::de::IgnoredAny>,
    }
    match serde_json::from_slice::<Counted>(text)?.added_tokens.len() {
        n if n > MAX_ADDED => Err(Failure(format!("it has {n} added_tokens; the limit is {MAX_ADDED}"))),
        _ => Ok(()),
    }
}

/// Encodes `text` into `out`; 0, or 1 and `error`. It ends early when `*cancelled` is not 0.
///
/// # Safety
/// `t` is open; `text` points to `len` bytes of UTF-8; `cancelled` is null or another thread may set it.
#[no_mangle]
pub unsafe extern "C" fn prefillonly_tokenizer_encode(
    t: *const c_void, text: *const u8, len: usize, add_special: bool, budget: Budget, cancelled: *const AtomicI32,
    out: *mut Ids, error: *mut Bytes,
) -> i32 {
    let ids = within(&budget, Bounds { cancelled, ..FREE }, || {
        let text = String::from_utf8_lossy(slice(text, len));
        Ok(inner(t)?.encode_fast(text.as_ref(), add_special)?.get_ids().to_vec())
    });
    answer(error, ids).map_or(1, |ids| {
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
    t: *const c_void, ids: *const u32, len: usize, skip_special: bool, budget: Budget, out: *mut Bytes, error: *mut Bytes,
) -> i32 {
    let text = within(&budget, FREE, || Ok(inner(t)?.decode(slice(ids, len), skip_special)?));
    answer(error, text).map_or(1, |text| {
        out.write(text.into_bytes().into());
        0
    })
}

/// Writes the tokenizer's parts as JSON: normalizer, pre_tokenizer, decoder as in tokenizer.json,
/// added_tokens with their ids, vocab, the text of every id (null where there is none), and of a BPE
/// model its type and byte_fallback.
///
/// # Safety
/// `t` is open.
#[no_mangle]
pub unsafe extern "C" fn prefillonly_tokenizer_describe(
    t: *const c_void, budget: Budget, out: *mut Bytes, error: *mut Bytes,
) -> i32 {
    let text = within(&budget, FREE, || {
        let t = inner(t)?;
        let added: Vec<_> = t.get_added_tokens_decoder().into_iter().map(|(id, a)| {
            json!({"id": id, "content": a.content, "special": a.special, "normalized": a.normalized,
                   "lstrip": a.lstrip, "rstrip": a.rstrip, "single_word": a.single_word})
        }).collect();
        Ok(serde_json::to_vec(&json!({
            "normalizer": t.get_normalizer(), "pre_tokenizer": t.get_pre_tokenizer(),
            "decoder": t.get_decoder(), "added_tokens": added, "vocab": vocabulary(t)?,
            "model": match t.get_model() { ModelWrapper::BPE(m) => json!({"type": "BPE", "byte_fallback": m.byte_fallback}), _ => json!({}) },
        }))?)
    });
    answer(error, text).map_or(1, |text| {
        out.write(text.into());
        0
    })
}

/// The text of every id. A few large ids cannot make it long.
fn vocabulary(t: &Tokenizer) -> Result<Vec<Option<String>>, Failure> {
    let texts = t.get_vocab(true);
    let bound = 4 * texts.len() + 65536;
    let mut vocab: Vec<Option<String>> = Vec::new();
    for (token, id) in texts {
        if id as usize >= bound {
            return Err(Failure(format!(
                "the token {token:.40?} has the id {id}; the ids of a vocabulary this small must be below {bound}")));
        }
        let id = id as usize;
        if id >= vocab.len() {
            vocab.resize(id + 1, None);
        }
        vocab[id] = Some(token);
    }
    Ok(vocab)
}
