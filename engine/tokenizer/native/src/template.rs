//! Chat templates, rendered as `apply_chat_template` of transformers does with Jinja2.

use crate::budget::{apart, deep, Budget, FREE};
use crate::ffi::{answer, slice, Bytes, Failure};
use crate::json::{dump, repr, Layout};
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, Value};
use std::ffi::{c_void, CString};
use std::sync::atomic::{AtomicUsize, Ordering};

const NAME: &str = "chat_template";

/// The bytes that the renderings of one template may leave behind. A template without cycles leaves
/// only what the environment keeps after its first rendering.
const MAX_LEAK: usize = 1 << 20;

/// A compiled template with its environment.
struct Template {
    env: Environment<'static>,
    leaked: AtomicUsize, // bytes that renderings did not free: values that refer to themselves
}

impl Template {
    fn compile(source: &str, fuel: u64) -> Result<Self, Failure> {
        let mut env = Environment::new();
        env.set_trim_blocks(true);
        env.set_lstrip_blocks(true);
        env.set_fuel(Some(fuel));
        env.set_auto_escape_callback(|_| AutoEscape::None);
        env.set_formatter(format_python);
        env.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        env.add_filter("tojson", tojson);
        env.add_filter("string", |v: &Value| python_str(v));
        env.add_test("iterable", is_iterable);
        env.remove_global("debug");
        env.add_function("raise_exception", raise_exception);
        env.add_function("strftime_now", strftime_now);
        // As Jinja's lexer: every kind of line end is a line feed.
        let source = source.replace("\r\n", "\n").replace('\r', "\n");
        env.add_template_owned(NAME, without_generation_tags(&source)).map_err(explain)?;
        Ok(Template { env, leaked: AtomicUsize::new(0) })
    }

    fn render_within(&self, budget: &Budget, context: &[u8], flatten: bool) -> Result<String, Failure> {
        if self.leaked.load(Ordering::Relaxed) > MAX_LEAK {
            return Err(Failure("it keeps memory after it ends: a namespace of it refers to itself".into()));
        }
        let (text, kept) = deep(budget, || self.render(context, flatten))?;
        self.leaked.fetch_add(kept.saturating_sub(text.capacity()), Ordering::Relaxed);
        Ok(text)
    }

    fn render(&self, context: &[u8], flatten: bool) -> Result<String, Failure> {
        let mut context: serde_json::Value = serde_json::from_slice(context)?;
        if let Some(messages) = context.get_mut("messages").and_then(|m| m.as_array_mut()) {
            messages.iter_mut().for_each(|m| prepare(m, flatten));
        }
        let context = Value::from_serialize(&context);
        self.env.get_template(NAME).and_then(|t| t.render(context)).map_err(explain)
    }
}

fn explain(e: Error) -> Failure {
    Failure(match (e.detail(), e.line()) {
        (Some(detail), Some(line)) => format!("line {line}: {}: {detail}", e.kind()),
        (Some(detail), None) => format!("{}: {detail}", e.kind()),
        (None, Some(line)) => format!("line {line}: {}", e.kind()),
        (None, None) => e.kind().to_string(),
    })
}

/// Brings an OpenAI message into the form that templates expect: the arguments of tool calls as
/// objects instead of JSON text and, if `flatten`, a list of text parts as one text.
fn prepare(message: &mut serde_json::Value, flatten: bool) {
    if let Some(calls) = message.get_mut("tool_calls").and_then(|c| c.as_array_mut()) {
        for arguments in calls.iter_mut().filter_map(|c| c.get_mut("function")?.get_mut("arguments")) {
            let parsed = arguments.as_str().and_then(|text| serde_json::from_str(text).ok());
            if let Some(serde_json::Value::Object(object)) = parsed {
                *arguments = object.into();
            }
        }
    }
    if !flatten {
        return;
    }
    if let Some(content) = message.get_mut("content") {
        let texts: Option<Vec<&str>> = content.as_array()
            .and_then(|parts| parts.iter().map(|p| p.as_str().or(p.get("text")?.as_str())).collect());
        if let Some(texts) = texts {
            *content = texts.join("\n").into();
        }
    }
}

/// `{% generation %}` marks the assistant's words for training; in rendering it is a plain block.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let Some(len) = rest[start..].find("%}") else { break };
        let tag = &rest[start..start + len];
        out.push_str(&rest[..start]);
        out.push_str(&match tag[2..].trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+') {
            "generation" => tag.replacen("generation", "if true", 1),
            "endgeneration" => tag.replacen("endgeneration", "endif", 1),
            _ => tag.to_string(),
        });
        rest = &rest[start + len..];
    }
    out.push_str(rest);
    out
}

/// None is not iterable in Python.
fn is_iterable(v: &Value) -> bool {
    !v.is_none() && v.try_iter().is_ok()
}

fn raise_exception(message: String) -> Result<String, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

/// The local time in C's format, as `datetime.now().strftime` gives it.
fn strftime_now(format: String) -> Result<String, Error> {
    let invalid = |why: String| Error::new(ErrorKind::InvalidOperation, format!("strftime_now: {why}"));
    if format.is_empty() {
        return Ok(String::new());
    }
    let c = CString::new(format.as_str()).map_err(|e| invalid(e.to_string()))?;
    let mut buffer = vec![0u8; 64 * format.len() + 64];
    let len = unsafe {
        let now = libc::time(std::ptr::null_mut());
        let mut parts: libc::tm = std::mem::zeroed();
        libc::localtime_r(&now, &mut parts);
        libc::strftime(buffer.as_mut_ptr().cast(), buffer.len(), c.as_ptr(), &parts)
    };
    buffer.truncate(len);
    String::from_utf8(buffer).map_err(|e| invalid(e.to_string()))
}

/// `json.dumps(v, ensure_ascii=False, indent, separators, sort_keys)`; ensure_ascii may be given.
fn tojson(v: &Value, indent: Option<usize>, options: Kwargs) -> Result<Value, Error> {
    let indent = options.get::<Option<usize>>("indent")?.or(indent);
    let separators: Option<Vec<String>> = options.get("separators")?;
    let ensure_ascii = options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
    let sort_keys = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    options.assert_all_used()?;
    let (item, key) = match separators.as_deref() {
        None if indent.is_some() => (",", ": "),
        None => (", ", ": "),
        Some([item, key]) => (item.as_str(), key.as_str()),
        Some(_) => return Err(Error::new(ErrorKind::InvalidOperation, "tojson: separators must be a pair")),
    };
    let value = serde_json::to_value(v).map_err(|e| Error::new(ErrorKind::BadSerialization, e.to_string()))?;
    let mut out = String::new();
    dump(&mut out, &value, &Layout { indent, item, key, ensure_ascii, sort_keys }, 0);
    Ok(Value::from_safe_string(out))
}

/// Python's `str(v)`.
fn python_str(v: &Value) -> Result<String, Error> {
    if let Some(text) = v.as_str() {
        return Ok(text.to_string());
    }
    let mut out = String::new();
    if !v.is_undefined() {
        repr(&mut out, v)?;
    }
    Ok(out)
}

/// Prints what `{{ v }}` gives in Python: True and None are not spelt as in minijinja.
fn format_python(out: &mut Output, state: &State, v: &Value) -> Result<(), Error> {
    match v.kind() {
        ValueKind::None | ValueKind::Bool | ValueKind::Number | ValueKind::Seq | ValueKind::Map => {
            out.write_str(&python_str(v)?).map_err(Error::from)
        }
        _ => minijinja::escape_formatter(out, state, v),
    }
}

/// Compiles a template; null and `error` when it is not valid, or takes more than `budget`. A rendering
/// ends with an error when it takes more than `fuel` instructions.
///
/// # Safety
/// `source` points to `len` bytes.
#[no_mangle]
pub unsafe extern "C" fn prefillonly_template_compile(
    source: *const u8, len: usize, fuel: u64, budget: Budget, error: *mut Bytes,
) -> *mut c_void {
    let source = slice(source, len);
    let made = apart(&budget, FREE, || Ok(Box::new(Template::compile(&String::from_utf8_lossy(source), fuel)?)));
    answer(error, made).map_or(std::ptr::null_mut(), |(t, _)| Box::into_raw(t).cast())
}

/// Renders with the JSON object `context`; 0, or 1 and `error`. `flatten` joins the text parts of
/// messages for templates that expect texts.
///
/// # Safety
/// `t` is a compiled template; `context` points to `len` bytes.
#[no_mangle]
pub unsafe extern "C" fn prefillonly_template_render(
    t: *const c_void, context: *const u8, len: usize, flatten: bool, budget: Budget, out: *mut Bytes,
    error: *mut Bytes,
) -> i32 {
    let t = &*t.cast::<Template>();
    let context = slice(context, len);
    answer(error, t.render_within(&budget, context, flatten)).map_or(1, |text| {
        out.write(text.into_bytes().into());
        0
    })
}

/// # Safety
/// `t` came from `prefillonly_template_compile` and is not used again.
#[no_mangle]
pub unsafe extern "C" fn prefillonly_template_free(t: *mut c_void) {
    drop(Box::from_raw(t.cast::<Template>()));
}
