//! Constraints on what is generated: JSON schemas, regular expressions and grammars by llguidance, over the tokens of
//! one tokenizer.

use crate::budget::{apart, release, within, Bounds, Budget, Kept, FREE};
use crate::daulet::UnifiedTokenizer;
use crate::ffi::{answer, slice, Bytes, Failure, Ids};
use llguidance::api::{GrammarWithLexer, ParserLimits, TopLevelGrammar};
use llguidance::toktrie::{TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};
use llguidance::{Matcher, ParserFactory};
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::AtomicI32;
use std::sync::Arc;

/// Vocabulary of a tokenizer for llguidance. Its last token is none of the tokenizer's: it stands for the end of the text.
struct Vocabulary {
    trie: TokTrie,
    tokenizer: *const UnifiedTokenizer, // outlives it
    canonical: bool,                    // texts can be tokenized apart from what is before them
}

unsafe impl Send for Vocabulary {}
unsafe impl Sync for Vocabulary {}

impl Vocabulary {
    /// The ids of `text` as the tokenizer alone gives them, if they stand for these very bytes.
    fn exactly(&self, text: &str) -> Option<Vec<TokenId>> {
        let UnifiedTokenizer::HuggingFace(t) = (unsafe { &*self.tokenizer }) else { return None };
        let ids = t.encode_fast(text, false).ok()?.get_ids().to_vec();
        let mut rest = text.as_bytes();
        for &id in &ids {
            rest = rest.strip_prefix(self.trie.token(id))?;
        }
        rest.is_empty().then_some(ids)
    }
}

impl TokenizerEnv for Vocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, s: &[u8]) -> Vec<TokenId> {
        self.trie.tokenize_with_greedy_fallback(s, |s| self.exactly(s).unwrap_or_else(|| self.trie.greedy_tokenize(s.as_bytes())))
    }

    fn tokenize_is_canonical(&self) -> bool {
        self.canonical
    }
}

/// What llguidance takes for one text at most, beside the budget of a call. A state of the lexer has some 2 kB.
fn limits() -> ParserLimits {
    ParserLimits { max_lexer_states: 20_000, verbose_errors: false, ..ParserLimits::default() }
}

/// Makes the state that the constraints of a tokenizer share; null and `error` when it cannot be made. `ends` are where
/// each token's bytes end in `bytes`; a token without bytes is never allowed.
///
/// # Safety
/// `tokenizer` is open, and is freed after what this returns and all that is compiled of it; `bytes` has as many bytes as
/// the last of `ends` says.
#[no_mangle]
pub unsafe extern "C" fn prefillonly_grammars_open(
    tokenizer: *const c_void, bytes: *const u8, ends: *const u32, count: usize, budget: Budget, error: *mut Bytes,
) -> *mut c_void {
    let ends = slice(ends, count);
    let bytes = slice(bytes, ends.last().map_or(0, |&n| n as usize));
    let made = within(&budget, FREE, || {
        let mut words = Vec::with_capacity(count + 1);
        let mut start = 0;
        for &end in ends {
            words.push(bytes[start..end as usize].to_vec());
            start = end as usize;
        }
        words.push(b"\xff<end>".to_vec());
        let trie = TokTrie::from(&TokRxInfo::new(words.len() as u32, count as TokenId), &words);
        let mut vocabulary = Vocabulary { trie, tokenizer: tokenizer.cast(), canonical: false };
        vocabulary.canonical = ["a", " a", "{\"a\": \"b c\"}", "\n"].iter().all(|text| vocabulary.exactly(text).is_some());
        let env: TokEnv = Arc::new(vocabulary);
        let mut factory = ParserFactory::new_simple(&env)?;
        factory.quiet();
        *factory.limits_mut() = limits();
        Ok(Box::new(factory))
    });
    answer(error, made).map_or(null_mut(), |f| Box::into_raw(f).cast())
}

/// # Safety
/// `factory` came from `prefillonly_grammars_open` and is not used again.
#[no_mangle]
pub unsafe extern "C" fn prefillonly_grammars_free(factory: *mut c_void) {
    drop(Box::from_raw(factory.cast::<ParserFactory>()));
}

/// A compiled form in a state, and the account of all that are clones of each other.
struct Form {
    matcher: Matcher,
    kept: Arc<Kept>,
}

impl Form {
    fn bounds(&self) -> Bounds {
        Bounds { cancelled: null(), kept: Arc::as_ptr(&self.kept) }
    }
}

/// Compiles a grammar in Lark's syntax, in which `%json {...}` is a JSON schema; null and `error` when it is not one. It and
/// its clones keep at most `most` bytes. A `*cancelled` other than 0 ends it.
///
/// # Safety
/// `factory` is open; `text` points to `len` bytes; `cancelled` is null or outlives the call.
#[no_mangle]
pub unsafe extern "C" fn prefillonly_grammar_compile(
    factory: *const c_void, kind: u32, text: *const u8, len: usize, budget: Budget, most: usize, cancelled: *const AtomicI32,
    error: *mut Bytes,
) -> *mut c_void {
    struct Shared<'a>(&'a ParserFactory);
    unsafe impl Send for Shared<'_> {} // one thread at a time uses what it is given
    let shared = Shared(&*factory.cast::<ParserFactory>());
    let text = slice(text, len);
    let kept = Arc::new(Kept::new(most));
    let made = apart(&budget, Bounds { cancelled, kept: Arc::as_ptr(&kept) }, || {
        let shared = shared;
        let grammar = read(kind, std::str::from_utf8(text)?)?;
        let matcher = Matcher::new(shared.0.create_parser(TopLevelGrammar::from_grammar(grammar)));
        match matcher.get_error() {
            Some(why) => Err(explain(why)),
            None => Ok(Owned(matcher)),
        }
    });
    answer(error, made).map_or(null_mut(), |(m, _)| Box::into_raw(Box::new(Form { matcher: m.0, kept })).cast())
}

/// A matcher on its way from the thread that made it.
struct Owned(Matcher);
unsafe impl Send for Owned {}

/// What llguidance says of an error, less its own state.
fn explain(why: impl ToString) -> Failure {
    let why = why.to_string().replace("<non-verbose/>", "");
    let why: String = why.trim().chars().take(500).collect();
    Failure(match why.as_str() {
        "NoExtensionBias" => "no text has this form".into(),
        _ if why.contains("PoisonError") => "another text of the same form has failed".into(), // prefillonly_broken
        _ => why,
    })
}

/// The kinds of grammars, as in `prefillonly_native.h`.
fn read(kind: u32, text: &str) -> Result<GrammarWithLexer, Failure> {
    Ok(match kind {
        0 => GrammarWithLexer::from_json_schema(serde_json::from_str(text)?),
        1 => GrammarWithLexer::from_regex(text),
        _ => GrammarWithLexer::from_lark(text.to_string()),
    })
}

/// A constraint in the state of another one, from where both go on apart, with one lexer that learns for both.
///
/// # Safety
/// `form` is a compiled grammar.
#[no_mangle]
pub unsafe extern "C" fn prefillonly_grammar_clone(
    form: *const c_void, budget: Budget, error: *mut Bytes,
) -> *mut c_void {
    let form = &*form.cast::<Form>();
    let made = within(&budget, form.bounds(), || Ok(form.matcher.clone()));
    answer(error, made).map_or(null_mut(), |matcher| Box::into_raw(Box::new(Form { matcher, kept: form.kept.clone() })).cast())
}

/// # Safety
/// `form` is a compiled grammar and is not used again.
#[no_mangle]
pub unsafe extern "C" fn prefillonly_grammar_free(form: *mut c_void) {
    let form = Box::from_raw(form.cast::<Form>());
    release(form.matcher, &form.kept);
}

/// Takes `ids` and then the tokens that must follow them, which `forced` lists; 0, 1 when the text is complete and
/// nothing can follow, or -1 and `error`.
///
/// # Safety
/// `form` is a compiled grammar; `ids` points to `len` ids.
#[no_mangle]
pub unsafe extern "C" fn prefillonly_grammar_advance(
    form: *mut c_void, ids: *const u32, len: usize, budget: Budget, forced: *mut Ids, error: *mut Bytes,
) -> i32 {
    let form = &mut *form.cast::<Form>();
    let bounds = form.bounds();
    let m = &mut form.matcher;
    let done = within(&budget, bounds, || {
        m.consume_tokens(slice(ids, len)).map_err(explain)?;
        let more = if m.is_stopped() { Vec::new() } else { m.consume_ff_tokens() };
        match m.get_error() {
            Some(why) => Err(explain(why)),
            None => Ok((more.into_boxed_slice(), m.is_stopped())),
        }
    });
    answer(error, done).map_or(-1, |(more, stopped)| {
        form.kept.give(size_of_val(&*more) as isize); // the caller's
        forced.write(more.into_vec().into());
        stopped.into()
    })
}

/// Sets in `bits`, of `words` words, the tokens that may follow; 0, 1 when the text may also end here, or -1 and `error`.
///
/// # Safety
/// `form` is a compiled grammar that is not complete; `bits` points to `words` words.
#[no_mangle]
pub unsafe extern "C" fn prefillonly_grammar_mask(
    form: *mut c_void, bits: *mut u32, words: usize, budget: Budget, error: *mut Bytes,
) -> i32 {
    let form = &mut *form.cast::<Form>();
    let bounds = form.bounds();
    let m = &mut form.matcher;
    let bits = std::slice::from_raw_parts_mut(bits, words);
    let done = within(&budget, bounds, || {
        let mask = m.compute_mask().map_err(explain)?;
        let end = m.tok_env()?.tok_trie().eos_token();
        let may_end = mask.is_allowed(end);
        let from = mask.as_slice();
        let n = from.len().min(words);
        bits[..n].copy_from_slice(&from[..n]);
        bits[n..].fill(0);
        if let Some(word) = bits.get_mut(end as usize / 32) {
            *word &= !(1 << (end % 32));
        }
        Ok(may_end)
    });
    answer(error, done).map_or(-1, i32::from)
}
